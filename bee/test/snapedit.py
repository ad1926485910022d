# SPDX-License-Identifier: MIT
"""Changes a library or a process of a snapshot of bee, and mends the file's digest.

usage: snapedit.py FROM TO LIBRARY EDIT, or FROM TO NUMBER EDIT for the record of a
process, whose fields have 32 bits; `lost`: the process has no parts, `torn`: a byte
of its own snapshot is changed. EDIT is FIELD+N, FIELD-N, FIELD=N, where N
may be another field, path=TEXT, `twice` (the library is there twice) or `unmapped`
(its text is in no area). The layout is that of bee/core/snapshot.h.
"""

import hashlib
import re
import struct
import sys

HEAD = struct.Struct("<IIQ")
LIBRARY, AREA, MEMBER, SHARED, PART = 6, 7, 17, 18, 19
FIELDS = {"text": 0, "text_end": 8, "offset": 16, "stubs": 24, "stubs_end": 32}
DIGEST, IS_LOADER, PATH = 40, 72, 80
MEMBER_FIELDS = ["number", "parent", "group", "session", "pid", "ended", "status"]


def read_sections(data):
    """Return (type, payload) of each section."""
    at, sections = 16, []
    while at < len(data) - 32:
        kind, _, size = HEAD.unpack_from(data, at)
        at += HEAD.size
        sections.append([kind, bytearray(data[at : at + size])])
        at += (size + 7) & ~7
    return sections


def get_field(payload, name):
    """Return the value of a field of 64 bits."""
    return struct.unpack_from("<Q", payload, FIELDS[name])[0]


def edit_field(payload, name, sign, text):
    """Change one field."""
    if name == "path":
        payload[PATH : PATH + len(text) + 1] = text.encode() + b"\0"
    elif name == "digest":
        payload[DIGEST] ^= 1
    elif name == "is_loader":
        payload[IS_LOADER] = int(text)
    else:
        n = get_field(payload, text) if text in FIELDS else int(text, 0)
        old = get_field(payload, name)
        new = {"+": old + n, "-": old - n, "=": n}[sign]
        struct.pack_into("<Q", payload, FIELDS[name], new)


def edit_member(sections, number, edit):
    """Change the record of a process, or its parts."""
    parts = [s for s in sections if s[0] == PART and s[1][0] == number]
    if edit == "lost":
        return [s for s in sections if s not in parts]
    if edit == "torn":
        parts[0][1][-1] ^= 1
        return sections
    kind = MEMBER
    if edit.startswith("shared."):
        kind, edit = SHARED, edit[len("shared.") :]
    name, value = edit.split("=")
    record = [s for s in sections if s[0] == kind][number][1]
    fields = MEMBER_FIELDS if kind == MEMBER else ["number", "handle", "group"]
    struct.pack_into("<I", record, 4 * fields.index(name), int(value, 0))
    return sections


def edit_library(sections, library, edit):
    """Change the library that has this name."""
    found = 0
    for i, (kind, payload) in enumerate(sections):
        if kind == LIBRARY and library.encode() in payload[PATH:]:
            found = i
    payload = sections[found][1]
    if edit == "twice":
        sections.insert(found, sections[found])
    elif edit == "unmapped":
        start = struct.pack("<Q", get_field(payload, "text"))
        return [s for s in sections if s[0] != AREA or s[1][:8] != start]
    else:
        edit_field(payload, *re.fullmatch(r"(\w+)([+=-])(.*)", edit).groups())
    return sections


def main():
    """Write the changed file."""
    source, target, library, edit = sys.argv[1:]
    with open(source, "rb") as f:
        data = f.read()
    sections = read_sections(data)
    if library.isdigit():
        sections = edit_member(sections, int(library), edit)
    else:
        sections = edit_library(sections, library, edit)
    out = bytearray(data[:16])
    for kind, payload in sections:
        out += HEAD.pack(kind, 0, len(payload)) + payload + bytes(-len(payload) % 8)
    with open(target, "wb") as f:
        f.write(out + hashlib.sha256(out).digest())


main()
