#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""manual.py SLOTSCOPE FOLDER: man pages and completion of the shells, made of what the program says of itself.

FOLDER/man1/slotscope.1, slotscope-VERB.1; FOLDER/man5/slots.csv.5 (of doc/columns.md); FOLDER/bash, FOLDER/zsh.
"""
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
VERSION = re.search(r'kVersion = "(.*)"', (TOP / "collector/base/version.h").read_text(encoding="utf-8")).group(1)
# What comes behind an option, where it is one of a few words.
WORDS = {
    "--group-by": "name pod unit cgroup",  # of top also process
    "--sort": "wait worst cpu throttled gpu traffic name pid",
    "--source": "auto kmod bpf",
    "--gpu": "auto on off",
    "--format": "auto text json otlp",
    "--rows": "slots seconds waits processes",
    "--trigger": "straggle xid nccl_hang wait=20ms",
}


def help_of(program, *words):
    return subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout


class Verb:
    """The help of a verb, taken apart."""

    def __init__(self, program, name):
        self.name = name
        self.synopsis, self.does, self.groups, self.examples = "", [], [], []
        for line in help_of(program, name).splitlines():
            if line.startswith("Usage: "):
                self.synopsis = line[len("Usage: "):]
            elif line == "Examples:" or self.examples:
                self.examples.append(line)
            elif line.endswith(":") and not line.startswith(" "):
                self.groups.append((line[:-1], []))
            elif self.groups and re.match(r"  -", line):
                self.groups[-1][1].append([*re.split(r"\s{2,}", line.strip(), maxsplit=1), ""][:2])
            elif self.groups and line.strip():
                option = self.groups[-1][1][-1]
                option[1] = f"{option[1]} {line.strip()}".strip()
            elif line.strip():
                self.does.append(line)
        self.does[0] = self.does[0].removeprefix(f"{name} ")

    def options(self):
        """(long name or short one, whether it wants a value, what it does)"""
        for _, options in self.groups:
            for form, text in options:
                names = re.findall(r"--?[A-Za-z][\w-]*", form)
                wants = bool(re.search(r"\s[A-Z]{1,}[A-Z=:]*$", form))
                yield names, wants, text


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def page(name, section, title, body):
    return (f'.\\" SPDX-License-Identifier: MIT\n.\\" Made by scripts/manual.py.\n.TH {name} {section} "" "slotscope {VERSION}" "{title}"\n'
            + body.rstrip("\n") + "\n")


def verb_page(verb):
    # Of its name the first sentence.
    what = re.split(r"[:;]", " ".join(verb.does))[0]
    body = f".SH NAME\nslotscope\\-{verb.name} \\- {roff(what)}\n.SH SYNOPSIS\n.B {roff(verb.synopsis)}\n.SH DESCRIPTION\n"
    body += roff("\n".join(verb.does)) + "\n"
    for group, options in verb.groups:
        body += f".SS {roff(group)}\n"
        for form, text in options:
            body += f".TP\n.B {roff(form.replace(' [ ', ', ').replace(' ]', ''))}\n{roff(text)}\n"
    if verb.examples:
        body += ".SH EXAMPLES\n.nf\n" + roff("\n".join(line[2:] for line in verb.examples[1:])) + "\n.fi\n"
    return page(f"SLOTSCOPE\\-{verb.name.upper()}", 1, "User Commands", body + ".SH SEE ALSO\n.BR slotscope (1),\n.BR slots.csv (5)\n")


def rows_of_table(text, heading):
    """Of the table with that heading: lists of fields, without marks."""
    rows, inside = [], False
    for line in text.splitlines():
        fields = [field.strip() for field in line.strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif fields[0] == heading:
            inside = True
        elif inside and not set(fields[0]) <= {"-"}:
            rows.append([re.sub(r"`|\*+|\[([^]]*)\]\([^)]*\)", r"\1", field) for field in fields])
    return rows


def overview_page(verbs):
    body = (".SH NAME\nslotscope \\- a row per process per millisecond: CPU, waiting, counters, GPU\n.SH SYNOPSIS\n.B slotscope\n.I VERB\n"
            ".RI [ options ]\n.SH DESCRIPTION\nslotscope records which process ran in each millisecond, what it cost, and who kept it waiting;\n"
            "and answers from what it has recorded. First\n.BR slotscope\\-check (1),\nthen\n.BR slotscope\\-record (1),\nthen\n"
            ".BR slotscope\\-explain (1).\n.SH VERBS\n")
    for verb in verbs:
        body += f".TP\n.BR slotscope\\-{verb.name} (1)\n" + roff("\n".join(verb.does)) + "\n"
    body += ".SH EXIT STATUS\n"
    for code, meaning in rows_of_table((TOP / "doc/recordings.md").read_text(encoding="utf-8"), "code"):
        body += f".TP\n.B {roff(code)}\n{roff(meaning)}\n"
    body += (".SH ENVIRONMENT\n.TP\n.B SLOTSCOPE_DUCKDB\nDuckDB's library, for\n.BR slotscope\\-query (1)\n.TP\n.B SLOTSCOPE_BPF_LOG\n"
             "1: what the kernel says of the eBPF programs that it refuses, in full\n.TP\n.B NO_COLOR\nno colours in\n.BR slotscope\\-top (1)\n"
             ".SH FILES\n.TP\n.I slotscope.rec\na recording, which is a folder\n.TP\n.I /var/lib/slotscope/slotscope.rec\nthat of the service\n.TP\n"
             ".I /etc/default/slotscope\noptions of the service\n.SH SEE ALSO\n.BR slots.csv (5),\n.BR perf (1),\n.BR bpftrace (8)\n")
    return page("SLOTSCOPE", 1, "User Commands", body)


def columns_page():
    text = (TOP / "doc/columns.md").read_text(encoding="utf-8")
    body = (".SH NAME\nslots.csv \\- a row per process per millisecond, as slotscope writes them\n.SH DESCRIPTION\n"
            "A row is a process in a slot, or one of the kinds that are none. An empty field means \"not measured\", never 0. Lines with # in\n"
            "front of the rows say what was recorded, those at the end count everything that was lost or late. In a recording it is the table\n"
            ".IR slots :\nsegments of this, compressed with\n.BR zstd (1).\n.SH COLUMNS\n")
    rows = rows_of_table(text, "column")
    if len(rows) < 40:
        sys.exit("manual.py: doc/columns.md has not the table of columns")
    for name, unit, meaning, empty in rows:
        meaning += "" if unit == "-" else f" ({'a count' if unit == '1' else unit})"
        body += f".TP\n.B {roff(name)}\n{roff(meaning)}.\n" + ("" if empty == "never" else f"Empty if {roff(empty)}.\n")
    return page("SLOTS.CSV", 5, "File Formats", body + ".SH SEE ALSO\n.BR slotscope (1),\n.BR slotscope\\-record (1)\n")


def bash(verbs):
    text = ("# SPDX-License-Identifier: MIT\n# Completion of slotscope for bash. Made by scripts/manual.py.\n_slotscope() {\n"
            "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i words=\n\tCOMPREPLY=()\n"
            f"\tif [ \"$COMP_CWORD\" = 1 ]; then\n\t\tmapfile -t COMPREPLY < <(compgen -W \"{' '.join(v.name for v in verbs)} help --help --version\" -- \"$word\")\n"
            "\t\treturn\n\tfi\n\t# Behind -- stands another program's command.\n"
            "\tfor ((i = 2; i < COMP_CWORD; i++)); do [ \"${COMP_WORDS[i]}\" != -- ] || return 0; done\n\tcase $before in\n")
    for option, words in WORDS.items():
        text += f"\t{option}) words=\"{words}\" ;;\n"
    text += "\tesac\n\t[ \"$before ${COMP_WORDS[1]}\" != \"--group-by top\" ] || words=\"process $words\"\n\tif [ -z \"$words\" ] && [[ $word == -* ]]; then\n\t\tcase ${COMP_WORDS[1]} in\n"
    for verb in verbs:
        names = [name for names, _, _ in verb.options() for name in names if name.startswith("--")]
        text += f"\t\t{verb.name}) words=\"{' '.join(names or ['--help'])}\" ;;\n"
    return text + ("\t\tesac\n\tfi\n\t[ -z \"$words\" ] || mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n}\n"
                   "complete -o default -F _slotscope slotscope\n")


def zsh(verbs):
    quote = lambda words: words.replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    text = ("#compdef slotscope\n# SPDX-License-Identifier: MIT\n# Completion of slotscope for zsh. Made by scripts/manual.py.\n"
            "_slotscope() {\n  local -a verbs\n  verbs=(\n")
    for verb in verbs:
        text += f"    '{verb.name}:{quote(' '.join(verb.does))[:70]}'\n"
    text += "  )\n  if (( CURRENT == 2 )); then\n    _describe verb verbs\n    return\n  fi\n  case $words[2] in\n"
    for verb in verbs:
        text += f"  {verb.name})\n    _arguments -s \\\n"
        for names, wants, what in verb.options():
            value = ":value:(" + WORDS[names[0]] + ")" if names[0] in WORDS else ":value:_files" if wants else ""
            for name in names:
                text += f"      '{name}[{quote(what)[:70]}]{value}' \\\n"
        text += "      '*:file:_files' ;;\n"
    return text + "  esac\n}\n_slotscope \"$@\"\n"


def main():
    program, folder = sys.argv[1], Path(sys.argv[2])
    overview = help_of(program)
    verbs = [Verb(program, name) for name in re.findall(r"^([a-z]+)\s{2,}\S", overview, re.M)]
    for name in ("man1", "man5"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for verb in verbs:
        (folder / f"man1/slotscope-{verb.name}.1").write_text(verb_page(verb), encoding="utf-8")
    (folder / "man1/slotscope.1").write_text(overview_page(verbs), encoding="utf-8")
    (folder / "man5/slots.csv.5").write_text(columns_page(), encoding="utf-8")
    (folder / "bash").write_text(bash(verbs), encoding="utf-8")
    (folder / "zsh").write_text(zsh(verbs), encoding="utf-8")


if __name__ == "__main__":
    main()
