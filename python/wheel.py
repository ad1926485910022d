# SPDX-License-Identifier: MIT
"""Packs the package below build/python into a wheel; equal files, equal bytes.

    python3 wheel.py PACKAGE FOLDER
    python3 wheel.py --metadata PACKAGE      prints the wheel's METADATA
"""
import base64
import hashlib
import os
import re
import sys
import zipfile

NAME = "skep"
TAG = "py3-none-linux_x86_64"
EPOCH = (1980, 1, 1, 0, 0, 0)
METADATA = """Metadata-Version: 2.1
Name: skep
Version: %s
Summary: Remote functions and Python functions on the nodes of a Skep hub
License: MIT
Requires-Python: >=3.8
Provides-Extra: functions
Requires-Dist: cloudpickle; extra == "functions"
Description-Content-Type: text/plain

%s
"""
WHEEL = """Wheel-Version: 1.0
Generator: skep
Root-Is-Purelib: false
Tag: %s
"""


def read_file(*words):
    with open(os.path.join(*words), "rb") as f:
        return f.read()


def list_files(package):
    """The files of the wheel: (name, bytes, mode)."""
    for name in sorted(os.listdir(package)):
        path = os.path.join(package, name)
        if os.path.isfile(path):
            mode = 0o755 if name.endswith((".so", ".rex")) else 0o644
            yield NAME + "/" + name, read_file(path), mode


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return "%s,sha256=%s,%d\n" % (name, digest.rstrip(b"=").decode(), len(data))


def make_metadata(package):
    """The package's version, and the text of METADATA."""
    text = read_file(package, "__init__.py").decode()
    version = re.search('^__version__ = "(.*)"$', text, re.M).group(1)
    about = text.split('"""')[1].strip()
    return version, METADATA % (version, about)


def build_wheel(package, folder):
    version, metadata = make_metadata(package)
    info = "%s-%s.dist-info" % (NAME, version)
    files = list(list_files(package))
    for name, content in (
        ("METADATA", metadata),
        ("WHEEL", WHEEL % TAG),
    ):
        files.append((info + "/" + name, content.encode(), 0o644))
    record = "".join(record_line(name, data) for name, data, _ in files)
    record += info + "/RECORD,,\n"
    files.append((info + "/RECORD", record.encode(), 0o644))
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "%s-%s-%s.whl" % (NAME, version, TAG))
    # Stored, not compressed: zlib's bytes differ from version to version.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as wheel:
        for name, data, mode in files:
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = (0o100000 | mode) << 16
            entry.create_system = 3
            wheel.writestr(entry, data)
    return path


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python3 wheel.py PACKAGE FOLDER | --metadata PACKAGE")
    if sys.argv[1] == "--metadata":
        print(make_metadata(sys.argv[2])[1], end="")
    else:
        print(build_wheel(sys.argv[1], sys.argv[2]))
