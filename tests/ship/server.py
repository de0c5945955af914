# SPDX-License-Identifier: MIT
"""A ClickHouse server of the tests' own: Debian's, in a folder of its own, on ports of its own."""
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

CONFIG = """<?xml version="1.0"?>
<yandex>
 <logger><level>warning</level><log>{folder}/log/all.log</log><errorlog>{folder}/log/errors.log</errorlog><size>10M</size><count>1</count></logger>
 <listen_host>127.0.0.1</listen_host><http_port>{http}</http_port><tcp_port>{tcp}</tcp_port>{more}
 <path>{data}/</path><tmp_path>{data}/tmp/</tmp_path>
 <users_config>users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
 <mark_cache_size>67108864</mark_cache_size><timezone>America/New_York</timezone>
</yandex>
"""
USERS = """<?xml version="1.0"?>
<yandex><profiles><default><max_memory_usage>4000000000</max_memory_usage></default></profiles>
<users><default><password>{password}</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default>
<rack7><password>not so secret</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></rack7></users>
<quotas><default><interval><duration>3600</duration><queries>0</queries><errors>0</errors><result_rows>0</result_rows><read_rows>0</read_rows><execution_time>0</execution_time></interval></default></quotas></yandex>
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class ClickHouse:
    def __init__(self, program, folder, data=None, tls=None):
        """tls: (certificate, key)."""
        self.program, self.folder, self.http, self.https = program, Path(folder), free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.http}"
        (self.folder / "log").mkdir(parents=True)
        self.data = Path(data) if data else self.folder / "data"
        self.data.mkdir(exist_ok=True)
        more = "" if not tls else f"""
 <https_port>{self.https}</https_port>
 <openSSL><server><certificateFile>{tls[0]}</certificateFile><privateKeyFile>{tls[1]}</privateKeyFile>
  <verificationMode>none</verificationMode></server></openSSL>"""
        (self.folder / "config.xml").write_text(CONFIG.format(folder=self.folder, http=self.http, tcp=free_port(), data=self.data, more=more))
        (self.folder / "users.xml").write_text(USERS.format(password=""))
        self.process = None
        self.start()

    def start(self):
        with open(self.folder / "log" / "out", "ab") as out:
            self.process = subprocess.Popen([self.program, f"--config-file={self.folder}/config.xml"], stdout=out, stderr=out, cwd=self.folder)
        self.wait_until_it_answers()

    def wait_until_it_answers(self):
        deadline = time.monotonic() + 60
        while True:
            try:
                if self.ask("SELECT 1") == "1\n":
                    return
            except (urllib.error.URLError, ConnectionError):
                pass
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise SystemExit(f"the server does not start: {(self.folder / 'log' / 'out').read_text()[-1000:]}")
            time.sleep(0.1)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()

    def ask(self, sql, database="slotscope"):
        known = "" if sql.startswith(("CREATE DATABASE", "DROP DATABASE", "SELECT 1")) else f"&database={database}"
        request = urllib.request.Request(f"{self.url}/?max_execution_time=300{known}", sql.encode())
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{sql[:200]}: {error.read().decode()[:600]}")

    def rows(self, sql):
        return [line.split("\t") for line in self.ask(sql).splitlines()]


class NewerClickHouse(ClickHouse):
    """Of today, see newer_server.py."""

    def start(self):
        (self.folder / "data").mkdir(exist_ok=True)
        with open(self.folder / "log" / "out", "ab") as out:
            self.process = subprocess.Popen([Path(__file__).with_name("newer_server.py"), self.program, self.data, str(self.http)], stdout=out, stderr=out)
        self.wait_until_it_answers()


def server_program():
    top = Path(__file__).resolve().parents[2]
    return subprocess.run([top / "scripts" / "clickhouse.sh"], check=True, capture_output=True, text=True).stdout.strip()

