"""Attacks of a hostile build, as data: a Python script each, which runs inside a sandbox.

A script tries one way out after another with ``attempt``. It prints ``BREACH`` for what came off, ``held`` for what
did not, and ``END`` when it has tried everything, so that a script that broke is not taken for a sandbox that held.
"""

from __future__ import annotations

from dataclasses import dataclass

PRELUDE = '''
import ctypes, glob, hashlib, json, os, pathlib, shutil, signal, socket, stat, subprocess, sys, time

world = json.load(open("world.json"))
libc = ctypes.CDLL(None, use_errno=True)


def attempt(what, action, *args):
    try:
        result = action(*args)
    except Exception as error:
        print(f"held {what}: {type(error).__name__}: {error}", flush=True)
    else:
        print(f"BREACH {what}: {result!r:.300}" if result else f"held {what}: nothing", flush=True)


def call(name, *args):
    """Call a function of libc; True when it succeeds."""
    ctypes.set_errno(0)
    if getattr(libc, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return True


def has_canary(path):
    return world["canary"].encode() in pathlib.Path(path).read_bytes()


def writes(path, data="x"):
    with open(path, "w") as file:
        file.write(data)
    return True
'''

END = '\nprint("END")\n'


@dataclass(frozen=True)
class Attack:
    """One kind of attack.

    :param harmless: it does no harm where nothing confines it, so it is also run there, where it must come off:
        that is what shows that the test can fail.
    """

    name: str
    code: str
    harmless: bool = False

    @property
    def script(self) -> str:
        return PRELUDE + self.code + END


SECRETS = Attack(
    "secrets in the environment",
    """
attempt("os.environ", lambda: [n for n, v in os.environ.items() if world["canary"] in v])
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/task/*/environ"):
    attempt(path, has_canary, path)
attempt("the shell's", lambda: world["canary"] in subprocess.run(["env"], capture_output=True, text=True).stdout)
""",
    harmless=True,
)

KEYS = Attack(
    "keys of the session",
    """
x86 = os.uname().machine == "x86_64"
libc.syscall.restype = ctypes.c_long
def payload(key):
    data = ctypes.create_string_buffer(4096)
    call("syscall", 250 if x86 else 219, 11, key, data, 4096)
    return world["canary"].encode() in data.raw
attempt("request_key", lambda: call("syscall", 249 if x86 else 218, b"user", world["key"].encode(), None, 0))
def listed():
    try:
        return open("/proc/keys").readlines()
    except OSError:
        return []
for line in listed():
    attempt("read " + line[:8], payload, int(line.split()[0], 16))
""",
    harmless=True,
)

TOKEN = Attack(
    "token file",
    """
for path in world["tokens"]:
    attempt(path, has_canary, path)
    attempt("by /proc/1/root", has_canary, "/proc/1/root" + path)
    attempt("by /proc/self/cwd", has_canary, "/proc/self/cwd/../../../../../.." + path)
""",
    harmless=True,
)

HOST_FILES = Attack(
    "files of the host",
    """
for path in world["canaries"]:
    attempt("read " + path, has_canary, path)
    attempt("see " + path, os.path.exists, path)
for folder in world["folders"]:
    attempt("list " + folder, lambda: set(os.listdir(folder)) & set(world["names"]))
for path, digest in world["digests"].items():
    attempt("the host's " + path, lambda: hashlib.sha256(open(path, "rb").read()).hexdigest() == digest)
attempt("beside the work folder", lambda: [p for p in glob.glob("/work/../*/*") if p in world["canaries"]])
""",
    harmless=True,
)

NETWORK = Attack(
    "network",
    """
for address in world["listeners"]:
    attempt(f"tcp {address}", lambda: socket.create_connection(address, 1))
def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(1)
        s.sendto(b"x", tuple(world["listeners"][0]))
        return s.getsockname()[0] not in ("0.0.0.0", "127.0.0.1")
attempt("udp", datagram)
attempt("an interface", lambda: [i for _, i in socket.if_nameindex() if i not in ("lo", "tunl0", "sit0", "ip6tnl0")])
""",
    harmless=True,
)

ABSTRACT = Attack(
    "abstract unix socket",
    """
def connect():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("\\0" + world["abstract"])
        return True
attempt("connect", connect)
attempt("/proc/net/unix", lambda: world["abstract"] in open("/proc/net/unix").read())
""",
    harmless=True,
)

ENGINE_SOCKETS = Attack(
    "sockets of engines",
    """
def connect(path):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(2)
        s.connect(path)
        return True
for path in world["sockets"]:
    attempt("connect " + path, connect, path)
    attempt("see " + path, os.path.exists, path)
for root in ("/run", "/var/run", "/tmp", "/var/tmp"):
    found = [p for depth in ("/*", "/*/*", "/*/*/*") for p in glob.glob(root + depth)]
    attempt("sockets in " + root, lambda: [p for p in found if stat.S_ISSOCK(os.lstat(p).st_mode)])
attempt("DOCKER_HOST", lambda: [n for n in os.environ if "DOCKER" in n or "CONTAINER_HOST" in n])
""",
    harmless=True,
)

OUTSIDE = Attack(
    "write outside the work folder",
    """
for folder in ("/", "/usr", "/usr/bin", "/usr/lib", "/bin", "/lib", "/etc", "/opt", "/home", "/root", "/var", "/sys",
               "/proc", "/mnt", "/work/..", *world["folders"]):
    attempt(folder, writes, os.path.join(folder, world["name"]))
    attempt("folder in " + folder, lambda: os.mkdir(os.path.join(folder, world["name"] + ".d")) or True)
for path in world["canaries"]:
    attempt("overwrite " + path, writes, path)
    attempt("by /proc/1/root", writes, "/proc/1/root" + path)
for path in ("/bin/sh", sys.executable, "/usr/bin/env"):
    attempt("open " + path, os.open, path, os.O_WRONLY)
    attempt("chmod " + path, lambda: os.chmod(path, 0o777) or True)
    attempt("unlink " + path, lambda: os.unlink(path) or True)
""",
)

OUTSIDE_CONTROL = Attack(
    "write to a folder of the host",
    """
for folder in world["folders"][:1]:
    attempt(folder, writes, os.path.join(folder, world["name"]))
for path in world["canaries"][:1]:
    attempt("append to " + path, lambda: open(path, "a").write(" "))
""",
    harmless=True,
)

TOOLCHAIN = Attack(
    "poison the toolchain",
    """
for root in world["mounts"]:
    tool = root + "/bin/tool"
    assert open(tool).read() == "honest", "the mount is not there"
    attempt("write " + tool, writes, tool)
    attempt("append " + tool, lambda: open(tool, "a").write("x"))
    attempt("new file", writes, root + "/bin/new")
    attempt("no-name file", os.open, root, os.O_TMPFILE | os.O_WRONLY)
    attempt("unlink", lambda: os.unlink(tool) or True)
    attempt("rename", lambda: os.rename(tool, tool + "2") or True)
    attempt("rename the mount", lambda: os.rename(root, root + "2") or True)
    attempt("chmod", lambda: os.chmod(tool, 0o777) or True)
    attempt("chmod the folder", lambda: os.chmod(root, 0o777) or True)
    attempt("chown", lambda: os.chown(tool, 1, 1) or True)
    attempt("utime", lambda: os.utime(tool, (1, 1)) or True)
    attempt("setxattr", lambda: os.setxattr(tool, "user.x", b"x") or True)
    attempt("hard link into the work folder", lambda: os.link(tool, "/work/tool") or True)
    attempt("truncate", lambda: os.truncate(tool, 0) or True)
    attempt("by its file descriptor", lambda: os.open(f"/proc/self/fd/{os.open(tool, os.O_RDONLY)}", os.O_WRONLY))
    MS_REMOUNT, MS_BIND = 32, 4096
    attempt("remount", call, "mount", None, root.encode(), None, MS_REMOUNT | MS_BIND, None)
    attempt("mount over", call, "mount", b"/work", root.encode(), None, MS_BIND, None)
    attempt("umount", call, "umount2", root.encode(), 2)
""",
)

STORE = Attack(
    "store and cache",
    """
for path in world["store"]:
    attempt("see " + path, os.path.exists, path)
    attempt("write " + path, writes, path + "/" + world["name"])
attempt("mountinfo", lambda: [l for l in open("/proc/self/mountinfo") if world["store"][0] in l])
""",
    harmless=True,
)

# Mounts, namespaces, devices, calls and terminals are in reach.py, for every engine.
PRIVILEGES = {
    "be somebody else": """
attempt("setuid 0 from another user", lambda: os.getuid() != 0 and (os.setuid(0) or True))
attempt("setuid 1234", lambda: os.setuid(1234) or True)
attempt("setgroups", lambda: os.setgroups([0, 1, 2]) or True)
status = dict(l.split(":\\t", 1) for l in open("/proc/self/status").read().splitlines() if ":\\t" in l)
attempt("capabilities", lambda: any(int(status[s], 16) for s in ("CapPrm", "CapEff", "CapBnd", "CapAmb", "CapInh")))
attempt("privileges may be gained", lambda: status["NoNewPrivs"].strip() != "1")
""",
    "setuid program": """
shutil.copy("/bin/sh", "/work/sh")
os.chmod("/work/sh", 0o4755)
attempt("chmod u+s and run", lambda: os.getuid() != 0 and (
    subprocess.run(["/work/sh", "-p", "-c", "id -u"], capture_output=True, text=True).stdout.strip() == "0"))
for program in ("su", "sudo", "mount", "newgrp", "pkexec"):
    path = shutil.which(program)
    if path and program != "mount":
        attempt(program, lambda: subprocess.run(
            [path, *(["-c", "id -u"] if program == "su" else ["-n", "id", "-u"])], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=3).stdout.strip() == "0" and os.getuid() != 0)
""",
    "its own limits": """
for path in glob.glob("/sys/fs/cgroup/**/memory*limit*", recursive=True) + glob.glob(
        "/sys/fs/cgroup/**/memory.max", recursive=True) + glob.glob("/sys/fs/cgroup/**/pids.max", recursive=True):
    attempt("write " + path, writes, path, "max" if path.endswith("max") else "-1")
for path in glob.glob("/sys/fs/cgroup/**/cgroup.procs", recursive=True)[:50]:
    attempt("join " + path, writes, path, "0")
import resource
for name in ("RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_AS"):
    number = getattr(resource, name)
    if resource.getrlimit(number)[1] != -1:
        attempt(name, lambda: resource.setrlimit(number, (-1, -1)) or True)
attempt("out-of-memory score", lambda: open("/proc/self/oom_score_adj", "w").write("-1000") and
        int(open("/proc/self/oom_score_adj").read()) == -1000)
attempt("priority", lambda: os.nice(-5) < 0)
attempt("real-time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)) or True)
""",
    "trace and kill others": """
found = glob.glob("/proc/[0-9]*/cmdline")
attempt("see anybody of the host", lambda: [p for p in found if world["argv"] in open(p).read()])
def mine(pid):
    return world["argv"] not in open(f"/proc/{pid}/cmdline").read()
def trace(pid):
    if mine(pid): return False
    call("ptrace", 16, pid, 0, 0)
    return True
def kill(pid):
    if mine(pid): return False
    os.kill(pid, signal.SIGKILL)
    return True
attempt("ptrace", trace, world["bystander"])
attempt("memory", lambda: not mine(world["bystander"]) and open(f"/proc/{world['bystander']}/mem", "rb"))
attempt("kill", kill, world["bystander"])
attempt("trace pid 1", lambda: os.getppid() != 1 and call("ptrace", 16, 1, 0, 0) and
        world["argv"] in open("/proc/1/cmdline").read())
""",
    "kill everything": """
child = subprocess.Popen(["sleep", "5"])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
attempt("kill pid 1", lambda: os.kill(1, signal.SIGTERM) or False)
attempt("kill all", lambda: os.kill(-1, signal.SIGKILL) or False)
""",
    "kernel settings": """
PASSED = {"self", "thread-self", "pressure", *map(str, range(100_000))}
for folder, folders, names in [*os.walk("/sys"), *os.walk("/proc")]:
    if folder.startswith("/proc/") and folder.split("/")[2] in PASSED:
        continue
    for name in names:
        path = folder + "/" + name
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            print("BREACH writable", path)
        except OSError:
            pass
attempt("core_pattern", lambda: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
""",
}

ISOLATION = (
    SECRETS,
    KEYS,
    TOKEN,
    HOST_FILES,
    NETWORK,
    ABSTRACT,
    ENGINE_SOCKETS,
    OUTSIDE,
    OUTSIDE_CONTROL,
    TOOLCHAIN,
    STORE,
    *(Attack(name, code) for name, code in PRIVILEGES.items()),
)

# --- builds that leave a hostile wheel ----------------------------------------------------------------------

# Stands in for ``python3 -m build``: makes the honest wheel with wheelsmith's own backend, then spoils it.
BUILD = '''
import base64, csv, hashlib, io, json, os, pathlib, shutil, stat, struct, sys, zipfile
from wheelsmith.engine.backend import hooks

paths = hooks.Paths(json.loads(os.environ.get("WHEELSMITH_PATHS", "{}")))
work = pathlib.Path(paths.here("/work"))
dist = work / "dist"
wheel = dist / hooks.build_wheel(str(dist))
with zipfile.ZipFile(wheel) as archive:
    files = {name: archive.read(name) for name in archive.namelist()}
info = next(name.split("/")[0] for name in files if ".dist-info/" in name)
OUTSIDE = OUTSIDE_PATH


def pack(path=wheel, extra=(), record=True, kind=zipfile.ZIP_STORED):
    """Write the wheel anew with a right RECORD, and ``extra`` members that zipfile itself would refuse or change."""
    if record:
        rows = io.StringIO()
        for name, data in {**files, **{str(n): d for n, d in extra}}.items():
            if not name.endswith("/RECORD"):
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                csv.writer(rows, lineterminator="\\n").writerow([name, "sha256=" + digest, len(data)])
        rows.write(f"{info}/RECORD,,\\n")
        files[f"{info}/RECORD"] = rows.getvalue().encode("utf-8", "surrogateescape")
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, data in [*files.items(), *extra]:
            archive.writestr(name if isinstance(name, zipfile.ZipInfo) else zipfile.ZipInfo(name), data)


def member(name, mode):
    """A member with file type and mode bits."""
    info = zipfile.ZipInfo("member")
    info.filename, info.external_attr, info.create_system = name, mode << 16, 3
    return info


class Named(str):
    __str__ = str.__str__
'''


@dataclass(frozen=True)
class Spoiled:
    """A build that leaves something else than the wheel it should.

    :param says: what the failure's message must hold.
    """

    name: str
    code: str
    says: str
    stage: str = "repair"


_LINK = "wheel.unlink()\nos.symlink(OUTSIDE + '/host.whl', wheel)"
SPOILED = (
    Spoiled("the wheel is a link", _LINK, "not one regular file", "build"),
    Spoiled("the wheel is a pipe", "wheel.unlink(); os.mkfifo(wheel)", "not one regular file", "build"),
    Spoiled("the wheel is a folder", "wheel.unlink(); wheel.mkdir()", "not one regular file", "build"),
    Spoiled("no wheel", "wheel.unlink()", "left 0 wheels", "build"),
    Spoiled("two wheels", "shutil.copy(wheel, dist / 'other-1-py3-none-any.whl')", "left 2 wheels", "build"),
    Spoiled("dist is a link", "shutil.rmtree(dist); os.symlink(OUTSIDE, dist)", "replaced its dist folder", "build"),
    Spoiled("dist is a file", "shutil.rmtree(dist); dist.write_text('')", "replaced its dist folder", "build"),
    Spoiled("dist is gone", "shutil.rmtree(dist)", "replaced its dist folder", "build"),
    Spoiled(
        "links where wheelsmith writes, and a lie",
        "for n in ('repair', 'packed', 'unpacked', 'tagged', 'site', 'test'): os.symlink(OUTSIDE, work / n)\n"
        "files['x.py'] = b''; pack(record=False)",
        "RECORD that lies",
    ),
    Spoiled("another name", "wheel.rename(dist / 'torch-2.13.0-py3-none-any.whl')", "the build left torch-2.13.0"),
    Spoiled("another version", "wheel.rename(dist / wheel.name.replace('-1-', '-2-'))", "the build left pure-2"),
    Spoiled("another tag", "wheel.rename(dist / wheel.name.replace('py3', 'cp313'))", "-cp313-none-any.whl, not"),
    Spoiled("no wheel's name", "wheel.rename(dist / 'evil.whl')", "evil.whl"),
    Spoiled("escapes in its name", "wheel.rename(dist / 'a\\x1b]52;c;eA==\\x07\\u202e-1-py3-none-any.whl')", "x1b]52"),
    Spoiled(
        "bytes in its name", "os.rename(os.fsencode(wheel), os.fsencode(dist) + b'/a\\xff-1-py3-none-any.whl')", "a"
    ),
    Spoiled("no zip", "wheel.write_bytes(b'PK' * 1000)", "not a readable zip"),
    Spoiled("cut short", "wheel.write_bytes(wheel.read_bytes()[:-30])", "not a readable zip"),
    Spoiled("a hole", "d = wheel.read_bytes(); wheel.write_bytes(d[:60] + bytes(40) + d[100:])", ""),
    Spoiled(
        "another METADATA",
        "files[f'{info}/METADATA'] = files[f'{info}/METADATA'].replace(b'Name: ', b'Name: not-'); pack()",
        "changed METADATA",
    ),
    Spoiled("a requirement more", "files[f'{info}/METADATA'] += b'Requires-Dist: evil\\n'; pack()", "changed METADATA"),
    Spoiled("RECORD with another hash", "files['pure/__init__.py'] += b'#'; pack(record=False)", "RECORD that lies"),
    Spoiled("RECORD without a file", "files['pure/more.py'] = b''; pack(record=False)", "RECORD that lies"),
    Spoiled("RECORD with a file too many", "pack(); del files['pure/_ops.py']; pack(record=False)", "RECORD that lies"),
    Spoiled("no text in RECORD", "files[f'{info}/RECORD'] = b'\\xff\\0\"'; pack(record=False)", "RECORD that lies"),
    Spoiled("no RECORD", "del files[f'{info}/RECORD']; pack(record=False)", "no pure-1.dist-info/RECORD"),
    Spoiled("a file that nobody planned", "files['evil.pth'] = b'import os'; pack()", "which is not the kernel's"),
    Spoiled("another project's file", "files['torch/hub.py'] = b''; pack()", "which is not the kernel's"),
    Spoiled("a file left out", "del files['pure/__init__.py']; pack()", "left 'pure/__init__.py' out"),
    Spoiled("two dist-infos", "files['other-1.dist-info/METADATA'] = b''; pack()", "2 .dist-info folders"),
    Spoiled(
        "a tag that leads out",
        "tag = b'Tag: py3-none-/../../../../../../..' + OUTSIDE.encode() + b'/escape'\n"
        "files[f'{info}/WHEEL'] = files[f'{info}/WHEEL'].replace(b'Tag: py3-none-any', tag); pack()",
        "WHEEL file",
    ),
    Spoiled(
        "a build number that leads out",
        "files[f'{info}/WHEEL'] += b'Build: 1/../../../../..' + OUTSIDE.encode() + b'/escape\\n'; pack()",
        "WHEEL file",
    ),
    Spoiled("another tag in WHEEL", "files[f'{info}/WHEEL'] += b'Tag: cp313-cp313-any\\n'; pack()", "WHEEL file"),
    Spoiled("a member above", "pack(extra=[('../../../escape', b'x')])", "unsafe name"),
    Spoiled("a member with an absolute name", "pack(extra=[(OUTSIDE + '/escape', b'x')])", "unsafe name"),
    Spoiled("a member with backslashes", "pack(extra=[(member('..\\\\\\\\escape', 0o644), b'x')])", "unsafe name"),
    Spoiled("a member with escapes", "pack(extra=[('a\\x1b[2J\\u202e.py', b'x')])", "unsafe name"),
    Spoiled("a roundabout name", "pack(extra=[('pure/./__init__.py', b'x')])", "unsafe name"),
    Spoiled("a member that is a link", "pack(extra=[(member('link', stat.S_IFLNK | 0o777), b'/etc/passwd')])", "link"),
    Spoiled(
        "a link and a file below",
        "pack(extra=[(member('l', stat.S_IFLNK | 0o777), OUTSIDE.encode()), ('l/escape', b'x')])",
        "link",
    ),
    Spoiled(
        "a member that is a device",
        "pack(extra=[(member('dev', stat.S_IFBLK | 0o666), b'')])",
        "neither a plain file nor a folder",
    ),
    Spoiled(
        "a member twice",
        "import warnings; warnings.simplefilter('ignore')\npack(extra=[('pure/__init__.py', b'evil')])",
        "twice",
    ),
    Spoiled("names that differ by case", "pack(extra=[('Pure/__init__.py', b'evil')])", "which is not the kernel's"),
    Spoiled("a file that is a folder too", "pack(extra=[('pure/__init__.py/x', b'evil')])", ""),
    Spoiled("a very long name", "pack(extra=[('x' * 5000, b'evil')])", ""),
    Spoiled(
        "a name that is no text",
        "pack(extra=[('zzzz', b'x')]); d = wheel.read_bytes()\n"
        "wheel.write_bytes(d.replace(b'zzzz', b'\\xff\\xfe\\xfd\\xfc').replace(b'PK\\1\\2', b'PK\\1\\2'))",
        "",
    ),
    Spoiled(
        "a name that is no UTF-8",
        "pack(extra=[('zz\\u00e9', b'x')]); d = wheel.read_bytes()\n"
        "wheel.write_bytes(d.replace('zz\\u00e9'.encode(), b'zz\\xff\\xff'))",
        "is marked as UTF-8, and is not",
    ),
    Spoiled(
        "a zip bomb",
        "z = bytes(2**24)\nwith zipfile.ZipFile(wheel, 'w', zipfile.ZIP_DEFLATED) as a:\n"
        "  for n in range(20): a.writestr(f'{n}', z)",
        "0 .dist-info folders",
    ),
    Spoiled(
        "a zip bomb that overlaps",
        "with zipfile.ZipFile(wheel, 'w', zipfile.ZIP_DEFLATED) as a:\n"
        "  a.writestr('0', bytes(2**24))\n  one = a.infolist()[0]\n"
        "  a.filelist += [member(str(n), 0) for n in range(1, 60)]\n"
        "  for m in a.filelist[1:]:\n"
        "    m.file_size, m.compress_size, m.CRC, m.compress_type = one.file_size, one.compress_size, one.CRC, 8\n"
        "    m.header_offset = one.header_offset\n",
        "does not end where",
    ),
    Spoiled("too many members", "pack(extra=[(f'f{n}', b'') for n in range(20_100)])", "which is not the kernel's"),
    Spoiled(
        "a member of 9 GiB",
        "pack(extra=[('big', b'x' * 77)]); d = wheel.read_bytes()\n"
        "at = d.index(b'PK\\1\\2', d.rindex(b'PK\\1\\2') - 3)\n"
        "wheel.write_bytes(d[:at + 24] + struct.pack('<I', 0xfffffff0) + d[at + 28:])",
        "in its local header",
    ),
    Spoiled(
        "encrypted",
        "pack(); d = bytearray(wheel.read_bytes()); at = d.index(b'PK\\1\\2'); d[at + 8] |= 1\nwheel.write_bytes(d)",
        "is encrypted",
    ),
    Spoiled(
        "a broken LZMA stream",
        "pack(extra=[('x', b'x' * 99)], kind=zipfile.ZIP_LZMA); d = wheel.read_bytes()\n"
        "at = d.index(b'x', d.index(b'PK'))\nwheel.write_bytes(d[:60] + b'\\xff' * 12 + d[72:])",
        "",
    ),
)
