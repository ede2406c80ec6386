"""What a hostile kernel would try: scripts that run inside a sandbox, and build backends that leave a bad wheel.

A script calls ``tried(name, attack)`` for each thing it tries: the line begins with ``ESCAPED`` when it worked.
``T`` holds what the test knows of the host: paths, addresses and canaries.
"""

from __future__ import annotations

PRELUDE = """
import ctypes, json, os, shutil, signal, socket, stat, struct, subprocess, sys, time
T = json.loads(os.environ["TARGETS"])
T["secret"] = T["secret"][::-1]  # told backwards, so that finding it means having found it elsewhere
libc = ctypes.CDLL(None, use_errno=True)

def tried(name, attack):
    try:
        answer = attack()
    except BaseException as error:
        print("held:", name, type(error).__name__, error, flush=True)
    else:
        if answer is None or answer is False:
            print("held:", name, "nothing found", flush=True)
        else:
            print("ESCAPED:", name, repr(answer)[:200], flush=True)

def call(function, *arguments):
    if getattr(libc, function)(*arguments):
        raise OSError(ctypes.get_errno(), function)
    return True

def read(path):
    with open(path, "rb") as file:
        return file.read(200)

def write(path):
    with open(path, "wb") as file:
        file.write(b"escaped")
    return True

def processes():
    return [name for name in os.listdir("/proc") if name.isdigit()]

def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(2)
        s.connect(address)
    return True
"""

# Each script, and what it goes for.
SCRIPTS = {
    "the token in the environment": """
tried("own", lambda: os.environ.get("HF_TOKEN"))
def others():
    return [n for n in processes() if T["secret"].encode() in read(f"/proc/{n}/environ")] or None
tried("of other processes", others)
tried("of the command lines", lambda: [n for n in processes() if T["secret"].encode() in read(f"/proc/{n}/cmdline")] or None)
""",
    "the token file": """
tried("by its path", lambda: read(T["token"]))
tried("by HF_HOME", lambda: read(os.path.join(os.environ["HF_HOME"], "token")))
tried("by the home folder", lambda: read(os.path.expanduser("~/.cache/huggingface/token")))
tried("through process 1", lambda: read("/proc/1/root" + T["token"]))
tried("through a descriptor", lambda: [f for f in os.listdir("/proc/1/fd") if "token" in os.readlink("/proc/1/fd/" + f)] or None)
""",
    "the host's home": """
tried("a file", lambda: read(T["home_file"]))
tried("the folder", lambda: os.path.basename(T["home_file"]) in os.listdir(os.path.dirname(T["home_file"])) or None)
tried("up and over", lambda: read("/work/../../../../.." + T["home_file"]))
os.symlink(T["home_file"], "link")
tried("by a link", lambda: read("link"))
""",
    "the network": """
tried("the host's address", lambda: connect(socket.AF_INET, (T["address"], T["port"])))
tried("another host", lambda: connect(socket.AF_INET, ("192.0.2.1", 80)))
tried("a name", lambda: socket.getaddrinfo("example.org", 443))
tried("a raw socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3))
tried("interfaces", lambda: [n for _, n in socket.if_nameindex() if n != "lo" and not n.endswith("0")] or None)
""",
    "loopback": """
tried("a port", lambda: connect(socket.AF_INET, ("127.0.0.1", T["port"])))
tried("an abstract socket", lambda: connect(socket.AF_UNIX, "\\0" + T["abstract"]))
""",
    "the engine's socket": """
for path in T["sockets"]:
    tried(path, lambda: connect(socket.AF_UNIX, path))
""",
    "files outside the work folder": """
for path in ("/escaped", "/usr/escaped", "/usr/bin/escaped", "/etc/escaped", "/opt/escaped", "/lib/escaped", "/root/escaped",
             "/sys/fs/cgroup/escaped", "/proc/1/mem", T["home_file"], T["store"] + "/escaped"):
    tried(path, lambda: write(path))
# Opened and not written: were it to work, the test would change the machine that it runs on.
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/kcore", "/dev/mem"):
    tried(path, lambda: os.open(path, os.O_WRONLY))
tried("/proc/kcore", lambda: read("/proc/kcore") or None)
""",
    "the toolchain and the cache": """
tried("write", lambda: write("/opt/torch/header.h"))
tried("add", lambda: write("/opt/torch/poison.h"))
tried("unlink", lambda: os.unlink("/opt/torch/header.h") or True)
tried("chmod", lambda: os.chmod("/opt/torch/header.h", 0o666) or True)
tried("rename", lambda: os.rename("/opt/torch", "/opt/torch2") or True)
tried("remount", lambda: call("mount", None, b"/opt/torch", None, 0x1020, None))
tried("mount over", lambda: call("mount", b"/work", b"/opt/torch", None, 0x1000, None))
tried("the store", lambda: os.listdir(T["store"]))
""",
}

BACKEND = """
import base64, csv, glob, hashlib, io, os, stat, zipfile

NAME, VERSION, TAG = "hostile", "1", "{tag}"

def member(name, mode=0o100644):
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info

def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()

def wheel(folder, files=None, *, name=NAME, version=VERSION, tag=TAG, metadata=None, lie=None, members=(), filename=None):
    filename = filename or f"{{name}}-{{version}}-{{tag}}.whl"
    info = f"{{name}}-{{version}}.dist-info"
    content = {{"hostile/__init__.py": b"", "hostile/_C.so": open(glob.glob("/usr/lib/*/libutil.so.1")[0], "rb").read()}}
    content.update(files or {{}})
    content[f"{{info}}/METADATA"] = (metadata or f"Metadata-Version: 2.1\\nName: {{name}}\\nVersion: {{version}}\\n").encode()
    content[f"{{info}}/WHEEL"] = f"Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: false\\nTag: {{tag}}\\n".encode()
    record = "".join(f"{{n}},{{digest(d)}},{{len(d)}}\\n" for n, d in content.items()) + f"{{info}}/RECORD,,\\n"
    content[f"{{info}}/RECORD"] = (lie or record).encode()
    with zipfile.ZipFile(os.path.join(folder, filename), "w") as archive:
        for n, d in content.items():
            archive.writestr(member(n), d)
        for i, d in members:
            archive.writestr(i, d)
    return filename

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    d = wheel_directory
{body}
"""

# What a build may leave behind → the body of its backend's build_wheel, and words of the answer that it gets.
BACKENDS = {
    "a link to a file of the host": (
        'os.symlink("{token}", f"{{d}}/hostile-1-{{TAG}}.whl"); return "x"',
        "one regular file",
    ),
    "links where wheelsmith will work": (
        (
            'for n in ("repair", "tagged", "unpacked", "packed", "relabelled"):\n'
            '        os.symlink("{outside}", f"/work/{{n}}")\n'
            "    return wheel(d)"
        ),
        None,
    ),
    "a member that climbs out": ('return wheel(d, members=[(member("../../escaped"), b"x")])', "unsafe name"),
    "another cell's wheel": ('return wheel(d, version="1+cu130.torch2.13")', "says version"),
    "a wheel for another platform": ('return wheel(d, tag=TAG.replace("linux_", "manylinux_2_17_"))', "not linux_"),
    "two wheels": ('wheel(d, version="2"); return wheel(d)', "left 2 wheels"),
    "a RECORD that lies": ('return wheel(d, lie="hostile/__init__.py,sha256=AAAA,0\\n")', "RECORD that lies"),
    "METADATA of another version": (
        'return wheel(d, metadata="Metadata-Version: 2.1\\nName: hostile\\nVersion: 2\\n")',
        "says version '2'",
    ),
    "escape sequences": (
        (
            'print("\\x1b]52;c;aGk=\\x07\\x1b[2J\\x1b[1;1H\\x9b31m\\u202egnp.exe\\x00 done", flush=True)\n'
            '    os.write(1, b"\\xff\\xfe" + b"x" * 100000 + b"\\n")\n'
            '    raise SystemExit("\\x1b[31mred")'
        ),
        "exit code 1",
    ),
}
