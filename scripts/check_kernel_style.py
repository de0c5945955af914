#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_kernel_style.py [--self-test]: kernel style of the C files in kmod/, bpf/ and include/.

The part of checkpatch's rules that this tree relies on; checkpatch itself comes only with a kernel's
sources. Prints "file:line: what to do" per finding and exits 1 if there was one.
"""
import re
import sys
from pathlib import Path

COLUMNS = 105
LICENCES = {"kmod": "GPL-2.0-only", "bpf": "GPL-2.0-only", "include": "GPL-2.0-only OR MIT"}
# These run under the run-queue lock, where printing can deadlock: they count, procfs.c prints.
SILENT = ("kmod/cpu.c", "kmod/process.c", "kmod/rmid.c")

# (which files, what a line of code must not have, what to do). Comments and strings are blanked.
EVERYWHERE, KMOD, PROBES = "", "kmod/", SILENT
RULES = [
    (EVERYWHERE, r"\b(if|for|while|switch|return)\(", "put a space between the keyword and '('"),
    (EVERYWHERE, r"(\)|\b(else|do))\{|\}(else|while)\b", "put a space beside the brace"),
    (EVERYWHERE, r"^(?!\s*#).*?\b(?!(?:if|for|while|switch|return|case|do|else|in)\b)[A-Za-z_]\w*\s+\((?!\*)",
     "no space between a function's name and '('"),
    (EVERYWHERE, r"\bsizeof\b(?!\()", "write sizeof(x), with parentheses"),
    (EVERYWHERE, r"\btypedef\s+(struct|union|enum)\b", "no typedef of a struct: write 'struct name'"),
    (EVERYWHERE, r"\b(BUG(_ON)?|panic)\s*\(", "never stop the machine: count it or return an error"),
    (KMOD, r"\bWARN(_\w+)?\s*\(", "no WARN: it prints, and panics with panic_on_warn; count it instead"),
    (KMOD, r"\bfor \((\w+[\s*]+)+\w+\s*=", "declare the loop variable at the top of the block"),
    (PROBES, r"\b(pr_\w+|\w*printk\w*)\s*\(", "this file runs in probes: count, and print elsewhere"),
]
TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
CONTROL = re.compile(r"\b(if|while|switch|(\w+_)?for(_each\w*)?)\s*$")


def blank(token):
    """Comments vanish, strings keep their quotes; line and column stay as they are."""
    text = token.group()
    spaces = re.sub(r"[^\n]", " ", text)
    return spaces if text[0] == "/" else text[0] + spaces[1:-1] + text[0]


def before_parens(code):
    """The code before the (...) that it ends with."""
    depth = 0
    for i in range(len(code) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(code[i], 0)
        if depth == 0:
            return code[:i]
    return ""


def check_braces(code):
    depth = 0
    for match in re.finditer(r"[{}]", code):
        line_start = code.rfind("\n", 0, match.start()) + 1
        line = code.count("\n", 0, match.start()) + 1
        if match.group() == "}":
            depth = max(depth - 1, 0) if match.start() != line_start else 0
            if re.match(r"\}\s*\n\s*else\b", code[match.start():]):
                yield line, "write '} else' on one line"
            continue
        before = code[:match.start()].rstrip()
        own_line = not code[line_start:match.start()].strip()
        header = before_parens(before) if before.endswith(")") else ""
        control = CONTROL.search(header) or re.search(r"\b(else|do)$", before)
        if own_line and control:
            yield line, "the brace goes on the line of its if, else, for, while, do or switch"
        elif own_line and re.search(r"(^|\n)[\w\s]*\b(struct|union|enum)\b[\w\s]*$", before):
            yield line, "the brace goes on the line of its struct, union or enum"
        elif not own_line and depth == 0 and header and not control:
            yield line, "a function's opening brace goes on its own line"
        depth += 1


def check_spdx(path, first_line):
    licence = "SPDX-License-Identifier: " + LICENCES[path.split("/")[0]]
    wanted = f"// {licence}" if path.endswith(".c") else f"/* {licence} */"
    if first_line != wanted:
        yield 1, f"the first line must be: {wanted}"


def check_indent(raw, code, previous):
    indent = re.match(r"\s*", raw).group()
    if not code.strip(" \t\\"):  # comment, blank, or an empty line of a macro
        return
    if raw.startswith(" "):
        yield "indent with tabs, not spaces"
    elif re.search(r" \t| {8}", indent):
        yield "tabs first, then at most 7 spaces to align a continuation"
    elif indent.endswith(" ") and re.search(r"(^|[;{}:])$", previous):
        yield "indent with tabs; spaces only align a continuation line"


def check_file(path, text):
    if not text.endswith("\n"):
        yield text.count("\n") + 1, "end the file with a newline"
    lines = text.splitlines()
    yield from check_spdx(path, lines[0] if lines else "")
    for token in TOKEN.finditer(text):
        line = text.count("\n", 0, token.start()) + 1
        if token.group().startswith("//") and line > 1:
            yield line, "write /* ... */: // is for the SPDX line of a .c file"

    code = re.sub(r"\\\n", " \n", TOKEN.sub(blank, text))
    yield from check_braces(code)
    previous = ""
    for number, (raw, line) in enumerate(zip(lines, code.splitlines()), 1):
        if raw != raw.rstrip():
            yield number, "remove the white space at the end of the line"
        # As in checkpatch, a message is not broken: people search for it.
        if len(raw.expandtabs(8)) > COLUMNS and not re.search(r'"[,;)\s\\]*$', raw):
            yield number, f"break the line: it is longer than {COLUMNS} columns (a tab is 8)"
        for message in check_indent(raw, line, previous):
            yield number, message
        for where, pattern, message in RULES:
            if path.startswith(where) and re.search(pattern, line):
                yield number, message
        previous = line.rstrip()


def self_test():
    good = "int f(void)\n{\n\tint i;\n\n\tfor (i = 0; i < 2; i++)\n\t\tg(i,\n\t\t  \"if( //\");\n\treturn 0;\n}\n"
    bad = [
        "int f(void) {\n}\n", "struct s\n{\n\tint i;\n};\n", "int f(void)\n{\n\tif (a)\n\t{\n\t}\n}\n",
        "int f(void)\n{\n\tif (a) {\n\t}\n\telse {\n\t}\n}\n", "int f(void)\n{\n\tif(a)\n\t\tg();\n}\n",
        "int f(void)\n{\n\tg (a);\n}\n", "int f(void)\n{\n    g(a);\n}\n", "int f(void)\n{\n\t  g(a);\n}\n",
        "int a; \n", "int a;", "int a; // no\n", "int " + "a" * 105 + ";\n", "typedef struct s s_t;\n",
        "int f(void)\n{\n\tWARN_ON(a);\n}\n", "int f(void)\n{\n\tBUG();\n}\n", "int a = sizeof b;\n",
        "int f(void)\n{\n\tfor (int i = 0; i < 2; i++)\n\t\tg();\n}\n", "int f(void)\n{\n\tpr_info(\"a\");\n}\n",
        "int f(void)\n{\n\twhile (a){\n\t}\n}\n", "int f(void)\n{\n\tif (a) {\n\t}else {\n\t}\n}\n",
    ]
    spdx = "// SPDX-License-Identifier: GPL-2.0-only\n"
    failures = [f"reported: {good!r}" for _ in check_file("kmod/cpu.c", spdx + good)]
    failures += [f"not reported: {text!r}" for text in bad if not list(check_file("kmod/cpu.c", spdx + text))]
    failures += ["SPDX not reported"] if not list(check_file("include/slotscope/a.h", spdx)) else []
    return [f"scripts/check_kernel_style.py:1: self-test: {failure}" for failure in failures]


def main():
    if sys.argv[1:] == ["--self-test"]:
        findings = self_test()
    else:
        top = Path(__file__).resolve().parent.parent
        paths = sorted(p for folder in LICENCES for p in (top / folder).rglob("*.[ch]"))
        findings = []
        for path in paths:
            name = str(path.relative_to(top))
            found = sorted(set(check_file(name, path.read_text(encoding="utf-8", errors="replace"))))
            findings += [f"{name}:{line}: {message}" for line, message in found]
    print("".join(finding + "\n" for finding in findings), end="")
    return 1 if findings else 0


sys.exit(main())
