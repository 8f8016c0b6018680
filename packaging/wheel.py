"""Writes a wheel that carries a program: wheel.py PROGRAM README VERSION TAG DIRECTORY. Prints the name of the file."""

import base64
import hashlib
import pathlib
import sys
import zipfile

program, readme, version, tag, directory = sys.argv[1:]
info = f"waypost-{version}.dist-info"
metadata = f"""Metadata-Version: 2.1
Name: waypost
Version: {version}
Summary: The durable, shared memory of coding agents at work
License: MIT OR Apache-2.0
Classifier: Environment :: Console
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

""" + pathlib.Path(readme).read_text(encoding="utf-8")
wheel = f"Wheel-Version: 1.0\nGenerator: waypost\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n"
files = {
    f"waypost-{version}.data/scripts/way": (pathlib.Path(program).read_bytes(), 0o755),
    f"{info}/METADATA": (metadata.encode(), 0o644),
    f"{info}/WHEEL": (wheel.encode(), 0o644),
}
record = "".join(
    "{},sha256={},{}\n".format(
        name, base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode(), len(content)
    )
    for name, (content, _) in files.items()
)
files[f"{info}/RECORD"] = ((record + f"{info}/RECORD,,\n").encode(), 0o644)
name = f"waypost-{version}-py3-none-{tag}.whl"
with zipfile.ZipFile(pathlib.Path(directory) / name, "w", zipfile.ZIP_DEFLATED) as archive:
    for path, (content, mode) in files.items():
        # One time for all files: the same content makes the same wheel.
        entry = zipfile.ZipInfo(path, date_time=(1980, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, content)
print(name)
