#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""newer_server.py LIBRARY FOLDER PORT: a ClickHouse of today behind its HTTP interface, as far as slotscope uses that. Its engine is
chDB's, the library of the same source; users, TLS and what a server does while it is away are not in it."""
import ctypes
import http.server
import sys
import tempfile
import threading
import urllib.parse

# Of HTTP, not settings of the engine.
OF_HTTP = {"query", "database", "query_id", "decompress", "wait_end_of_query"}


class Engine:
    def __init__(self, library, folder):
        self.lib = ctypes.CDLL(library)
        self.lib.chdb_connect.restype = ctypes.POINTER(ctypes.c_void_p)
        self.lib.chdb_query_n.restype = ctypes.c_void_p
        self.lib.chdb_query_n.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
        for name, kind in (("buffer", ctypes.c_void_p), ("error", ctypes.c_char_p), ("length", ctypes.c_size_t)):
            function = getattr(self.lib, "chdb_result_" + name)
            function.restype, function.argtypes = kind, [ctypes.c_void_p]
        self.lib.chdb_destroy_query_result.argtypes = [ctypes.c_void_p]
        words = [b"clickhouse", b"--path=" + folder.encode()]
        self.connection = self.lib.chdb_connect(len(words), (ctypes.c_char_p * len(words))(*words))
        self.lock = threading.Lock()
        self.settings = {line for line in self.ask(b"SELECT name FROM system.settings")[0].decode().split()}

    def ask(self, sql):
        """(answer, error)."""
        kind = b"TabSeparated"
        result = self.lib.chdb_query_n(self.connection[0], sql, len(sql), kind, len(kind))
        error = self.lib.chdb_result_error(result)
        size = self.lib.chdb_result_length(result)
        answer = ctypes.string_at(self.lib.chdb_result_buffer(result), size) if size else b""
        self.lib.chdb_destroy_query_result(result)
        return answer, error


class Lz4:
    """Pieces of ClickHouse's own compression: checksum (16), method (1), sizes (4 and 4), data."""

    def __init__(self):
        self.lib = ctypes.CDLL("liblz4.so.1")

    def unpack(self, body):
        out, at = [], 0
        while at < len(body):
            method, packed, size = body[at + 16], int.from_bytes(body[at + 17:at + 21], "little"), int.from_bytes(body[at + 21:at + 25], "little")
            piece = ctypes.create_string_buffer(size)
            got = self.lib.LZ4_decompress_safe(body[at + 25:at + 16 + packed], piece, packed - 9, size)
            if method != 0x82 or got != size:
                raise ValueError(f"a piece at {at} is no LZ4")
            out.append(piece.raw)
            at += 16 + packed
        return b"".join(out)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, code, body):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        parameters = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, keep_blank_values=True))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if parameters.get("decompress") == "1":
            body = LZ4.unpack(body)
        sql = body
        if "query" in parameters:  # what stands behind a statement counts as part of it there, and is limited
            sql = parameters["query"].replace("FORMAT Native", f"SELECT * FROM file('{DATA.name}', Native)").encode()
        with ENGINE.lock:
            unknown = [name for name in parameters if name not in OF_HTTP and name not in ENGINE.settings]
            error = b"Code: 115. DB::Exception: Unknown setting " + unknown[0].encode() if unknown else None
            answer = b""
            if not error:
                error = ENGINE.ask(f"USE `{parameters.get('database', 'default')}`".encode())[1]
            if not error:
                DATA.seek(0)
                DATA.truncate()
                DATA.write(body)
                DATA.flush()
                answer, error = ENGINE.ask(sql)
        self.reply(500 if error else 200, error or answer)

    do_GET = do_POST


ENGINE = Engine(sys.argv[1], sys.argv[2])
LZ4 = Lz4()
DATA = tempfile.NamedTemporaryFile(suffix=".native")
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3])), Handler).serve_forever()
