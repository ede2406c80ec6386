"""What a build may try to read, reach and call: scripts that run inside a sandbox, and the engines that hold them.

A script tries one way out after another with ``tried``. It prints ``ESCAPED`` for what worked, ``held`` for what did
not, and ``END`` after the last, so that a script that broke is not taken for a sandbox that held. ``world`` is what an
attacker knows of the host. Scripts make system calls by their numbers, ``NR``, because the C library may refuse what
the kernel would not.
"""

from __future__ import annotations

from dataclasses import dataclass

PRELUDE = """
import ctypes, glob, hashlib, json, os, pathlib, shutil, signal, socket, stat, struct, subprocess, sys, time
world = json.load(open("world.json"))
libc = ctypes.CDLL(None, use_errno=True)

def tried(name, action, *arguments):
    try:
        result = action(*arguments)
    except BaseException as error:
        print("held:", name, type(error).__name__, error, flush=True)
    else:
        print(f"ESCAPED: {name} {result!r:.200}" if result else f"held: {name} nothing found", flush=True)

def call(function, *arguments):
    if getattr(libc, function)(*arguments):
        raise OSError(ctypes.get_errno(), function)
    return True

def read(path):
    with open(path, "rb") as file:
        return file.read(200)

def has_canary(path):
    return world["canary"].encode() in pathlib.Path(path).read_bytes()

def write(path):
    with open(path, "wb") as file:
        file.write(b"escaped")
    return True

def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(1)
        s.connect(address)
    return True

libc.syscall.restype = ctypes.c_long
NR = world["calls"]
X86 = os.uname().machine == "x86_64"
ZERO = ctypes.create_string_buffer(4096)

def sys_(name, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(NR[name] if isinstance(name, str) else name),
        *(ctypes.c_ulong(a & (1 << 64) - 1) if isinstance(a, int) else a for a in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return ("answered", result)

def in_child(action):
    # For what may kill its caller: gives what the child found, or None.
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            found = action()
        except BaseException:
            found = None
        os.write(write_end, repr(found).encode() if found else b"")
        os._exit(0)
    os.close(write_end)
    found = os.read(read_end, 200)
    os.close(read_end)
    os.waitpid(child, 0)
    return found or None
"""


@dataclass(frozen=True)
class Reach:
    """One kind of attack.

    :param engines: that hold it; of the others docs/explanation/sandbox.md says that they do not.
    :param harmless: it does no harm where nothing confines it, so it also runs there, where it must succeed.
    """

    name: str
    code: str
    engines: tuple[str, ...] = ("bwrap", "podman", "docker")
    harmless: bool = False

    @property
    def script(self) -> str:
        return f"{PRELUDE}{self.code}\nprint('END')"


REACHES = (
    Reach(
        "secrets in the environment",
        """
tried("os.environ", lambda: [n for n, v in os.environ.items() if world["canary"] in v])
for path in [p for name in ("environ", "cmdline") for p in glob.glob("/proc/[0-9]*/" + name) + glob.glob("/proc/[0-9]*/task/*/" + name)]:
    tried(path, has_canary, path)
""",
        harmless=True,
    ),
    Reach(
        "files of the host",
        """
for path in world["canaries"]:
    tried("see " + path, os.path.exists, path)
    for way in ("", "/proc/1/root", "/proc/self/cwd/../../../../../..", "/work/../../../../.."):
        tried(f"read {way}{path}", has_canary, way + path)
    os.symlink(path, "link")
    tried("by a link", has_canary, "link")
    os.unlink("link")
tried("token of HF_HOME", lambda: has_canary(os.environ["HF_HOME"] + "/token"))
for folder in world["folders"]:
    tried("list " + folder, lambda: set(os.listdir(folder)) & set(world["names"]))
for path, digest in world["digests"].items():
    tried("the host's " + path, lambda: hashlib.sha256(open(path, "rb").read()).hexdigest() == digest)
tried("descriptors of process 1", lambda: [f for f in os.listdir("/proc/1/fd") if os.readlink("/proc/1/fd/" + f) in world["canaries"]])
tried("append to " + world["canaries"][0], lambda: open(world["canaries"][0], "a").write(" "))
""",
        harmless=True,
    ),
    Reach(
        "the network",
        """
for address in world["listeners"]:
    tried(f"tcp {address}", connect, socket.AF_INET, tuple(address))
def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(1)
        s.sendto(b"x", tuple(world["listeners"][0]))
        return s.getsockname()[0] not in ("0.0.0.0", "127.0.0.1")
tried("udp", datagram)
tried("a name", lambda: socket.getaddrinfo("example.org", 443))
tried("an interface", lambda: [i for _, i in socket.if_nameindex() if i not in ("lo", "tunl0", "sit0", "ip6tnl0")])
tried("an abstract socket", connect, socket.AF_UNIX, "\\0" + world["abstract"])
""",
        harmless=True,
    ),
    Reach(
        "sockets of engines",
        """
for path in world["sockets"]:
    tried("connect " + path, connect, socket.AF_UNIX, path)
    tried("see " + path, os.path.exists, path)
for root in ("/run", "/var/run", "/tmp", "/var/tmp"):
    found = [p for depth in ("/*", "/*/*", "/*/*/*") for p in glob.glob(root + depth)]
    tried("sockets in " + root, lambda: [p for p in found if stat.S_ISSOCK(os.lstat(p).st_mode)])
tried("DOCKER_HOST", lambda: [n for n in os.environ if "DOCKER" in n or "CONTAINER_HOST" in n])
""",
        harmless=True,
    ),
    Reach(
        "files outside the work folder",
        """
for folder in ("/", "/usr", "/usr/bin", "/usr/lib", "/bin", "/lib", "/etc", "/opt", "/home", "/root", "/var", "/sys",
               "/proc", "/sys/fs/cgroup", "/mnt", "/work/..", *world["folders"]):
    tried(folder, write, os.path.join(folder, world["name"]))
    tried("folder in " + folder, lambda: os.mkdir(os.path.join(folder, world["name"] + ".d")) or True)
for path in world["canaries"]:
    tried("overwrite " + path, write, path)
    tried("by /proc/1/root", write, "/proc/1/root" + path)
for path in ("/bin/sh", sys.executable, "/usr/bin/env"):
    tried("open " + path, os.open, path, os.O_WRONLY)
    tried("chmod " + path, lambda: os.chmod(path, 0o777) or True)
    tried("unlink " + path, lambda: os.unlink(path) or True)
""",
    ),
    Reach(
        "the toolchain",
        """
for root in world["mounts"]:
    tool = root + "/bin/tool"
    assert open(tool).read() == "honest", "the mount is not there"
    tried("write " + tool, write, tool)
    tried("append " + tool, lambda: open(tool, "a").write("x"))
    tried("new file", write, root + "/bin/new")
    tried("no-name file", os.open, root, os.O_TMPFILE | os.O_WRONLY)
    tried("unlink", lambda: os.unlink(tool) or True)
    tried("rename", lambda: os.rename(tool, tool + "2") or True)
    tried("rename the mount", lambda: os.rename(root, root + "2") or True)
    tried("chmod", lambda: os.chmod(tool, 0o777) or True)
    tried("chmod the folder", lambda: os.chmod(root, 0o777) or True)
    tried("chown", lambda: os.chown(tool, 1, 1) or True)
    tried("utime", lambda: os.utime(tool, (1, 1)) or True)
    tried("setxattr", lambda: os.setxattr(tool, "user.x", b"x") or True)
    tried("hard link into the work folder", lambda: os.link(tool, "/work/tool") or True)
    tried("truncate", lambda: os.truncate(tool, 0) or True)
    tried("by its file descriptor", lambda: os.open(f"/proc/self/fd/{os.open(tool, os.O_RDONLY)}", os.O_WRONLY))
    tried("remount", call, "mount", None, root.encode(), None, 32 | 4096, None)
    tried("mount over", call, "mount", b"/work", root.encode(), None, 4096, None)
    tried("umount", call, "umount2", root.encode(), 2)
""",
    ),
    Reach(
        "every process",
        """
tried("see one of the host", lambda: [p for p in glob.glob("/proc/[0-9]*/cmdline") if world["name"] in open(p).read()])
child = subprocess.Popen(["sleep", "5"])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
tried("kill process 1", lambda: os.kill(1, signal.SIGTERM))
tried("kill all", lambda: os.kill(-1, signal.SIGKILL))
""",
    ),
    Reach(
        "sockets of other families",
        """
for family in (f for f in range(64) if f not in (1, 2, 10, 16)):
    for kind in (1, 2, 3, 5):
        tried(f"family {family} type {kind}", lambda: sys_("socket", family, kind, 0))
    tried(f"pair of family {family}", lambda: sys_("socketpair", family, 1, 0, ZERO))
tried("a pair of netlink", lambda: sys_("socketpair", 16, 3, 0, ZERO))
tried("a family with a bit that nobody reads", lambda: sys_("socket", 40 | 1 << 32, 1, 0))
""",
    ),
    Reach(
        "the hypervisor",
        """
for port in (22, 1024, 9999):
    tried(f"host port {port}", lambda: connect(40, (2, port)))
for name in ("vsock", "vhost-vsock", "kvm", "vhost-net", "xen", "virtio-ports"):
    tried("/dev/" + name, lambda: os.open("/dev/" + name, os.O_RDONLY))
""",
    ),
    Reach(
        "protocols that load kernel modules",
        """
for family in (2, 10):
    for kind, protocol in ((5, 132), (1, 132), (6, 33), (2, 136), (1, 262), (1, 256), (2, 1), (2, 58), (3, 255), (3, 1)):
        tried(f"family {family} type {kind} protocol {protocol}", lambda: sys_("socket", family, kind, protocol))
for protocol in range(1, 32):
    tried(f"netlink {protocol}", lambda: sys_("socket", 16, 3, protocol))
""",
    ),
    Reach(
        "io_uring and the older queue",
        """
tried("io_uring_setup", lambda: sys_("io_uring_setup", 8, ZERO))
tried("io_uring_enter", lambda: sys_("io_uring_enter", 0, 0, 0, 0, None, 0))
tried("io_uring_register", lambda: sys_("io_uring_register", -1, 14, ZERO, 1))
tried("io_setup", lambda: sys_("io_setup", 8, ZERO))
""",
    ),
    Reach(
        "userfaultfd",
        """
for flags in (0, 1, 0o2000000, 1 | 0o2000000):
    tried(f"flags {flags}", lambda: sys_("userfaultfd", flags))
tried("the device", lambda: os.open("/dev/userfaultfd", os.O_RDWR))
""",
    ),
    Reach(
        "counters and programs in the kernel",
        """
attributes = struct.pack("IIQQ", 1, 128, 0, 0) + bytes(104)
for pid, cpu in ((0, -1), (-1, 0), (1, -1)):
    tried(f"perf_event_open {pid} {cpu}", lambda: sys_("perf_event_open", attributes, pid, cpu, -1, 0))
for command in (0, 5, 18, 36):
    tried(f"bpf {command}", lambda: sys_("bpf", command, ctypes.create_string_buffer(struct.pack("IIII", 2, 4, 4, 1), 128), 128))
tried("tracing", lambda: os.listdir("/sys/kernel/tracing") or os.listdir("/sys/kernel/debug") or None)
""",
    ),
    Reach(
        "the kernel's keys",
        """
tried("add_key", lambda: sys_("add_key", b"user", b"x", b"y", 1, -3))
tried("request_key", lambda: sys_("request_key", b"user", b"x", None, 0))
for command, argument in ((0, -3), (0, -5), (1, 0), (2, -3), (6, -4), (11, -4), (31, 0)):
    tried(f"keyctl {command} {argument}", lambda: sys_("keyctl", command, argument, 0, 0, 0))
tried("/proc/keys", lambda: read("/proc/keys") or None)
""",
    ),
    Reach(
        "other processes",
        """
child = subprocess.Popen(["sleep", "20"])
for pid in (1, os.getppid(), child.pid):
    tried(f"attach to {pid}", lambda: sys_("ptrace", 16, pid, 0, 0))
    tried(f"seize {pid}", lambda: sys_("ptrace", 0x4206, pid, 0, 0))
    tried(f"read the memory of {pid}", lambda: sys_("process_vm_readv", pid, ZERO, 1, ZERO, 1, 0))
    tried(f"write the memory of {pid}", lambda: sys_("process_vm_writev", pid, ZERO, 1, ZERO, 1, 0))
    tried(f"compare with {pid}", lambda: sys_("kcmp", pid, os.getpid(), 0, 0, 0))
    tried(f"a descriptor of {pid}", lambda: sys_("pidfd_getfd", os.pidfd_open(pid), 0, 0))
    tried(f"advise {pid}", lambda: sys_("process_madvise", os.pidfd_open(pid), ZERO, 0, 20, 0))
tried("be traced", lambda: in_child(lambda: sys_("ptrace", 0, 0, 0, 0)))
tried("a process of the host by number", lambda: os.pidfd_open(world["pid"]) and world["name"].encode() in read(f"/proc/{world['pid']}/cmdline") or None)
child.kill()
""",
    ),
    Reach(
        "new namespaces",
        """
FLAGS = {"time": 0x80, "mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000,
    "pid": 0x20000000, "net": 0x40000000}
for name, flag in FLAGS.items():
    tried("unshare " + name, lambda: in_child(lambda: sys_("unshare", flag)))
    tried("unshare user and " + name, lambda: in_child(lambda: sys_("unshare", flag | 0x10000000)))
    tried("unshare, with a bit that nobody reads " + name, lambda: in_child(lambda: sys_("unshare", flag | 1 << 32)))
    if name != "time":
        def cloned(more=0):
            pid = sys_("clone", flag | more | signal.SIGCHLD, 0, 0, 0, 0)[1]
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
            return True
        tried("clone " + name, cloned)
        tried("clone user and " + name, lambda: cloned(0x10000000))
    def cloned3():
        arguments = ctypes.create_string_buffer(struct.pack("QQQQQQQQ", flag | 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0))
        pid = sys_("clone3", arguments, 64)[1]
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        return True
    tried("clone3 user and " + name, cloned3)
for path in os.listdir("/proc/self/ns"):
    tried("setns " + path, lambda: sys_("setns", os.open("/proc/self/ns/" + path, os.O_RDONLY), 0))
""",
    ),
    Reach(
        "mounts and roots",
        """
os.makedirs("m", exist_ok=True)
tried("mount", lambda: sys_("mount", b"x", b"/work/m", b"tmpfs", 0, None))
tried("bind", lambda: sys_("mount", b"/usr", b"/work/m", None, 4096, None))
tried("umount", lambda: sys_("umount2", b"/usr", 2))
tried("umount /proc", lambda: sys_("umount2", b"/proc", 2))
tried("fsopen", lambda: sys_("fsopen", b"tmpfs", 0))
tried("open_tree", lambda: sys_("open_tree", -100, b"/usr", 1))
tried("open_tree of a path", lambda: sys_("open_tree", -100, b"/usr", 0))
tried("fspick", lambda: sys_("fspick", -100, b"/work", 0))
tried("move_mount", lambda: sys_("move_mount", -100, b"/usr", -100, b"/work/m", 0))
tried("mount_setattr", lambda: sys_("mount_setattr", -100, b"/usr", 0, ctypes.create_string_buffer(struct.pack("QQQQ", 0, 1, 0, 0)), 32))
tried("pivot_root", lambda: sys_("pivot_root", b"/work", b"/work/m"))
tried("chroot", lambda: in_child(lambda: sys_("chroot", b"/work")))
tried("statmount", lambda: sys_("statmount", ctypes.create_string_buffer(struct.pack("IIQQ", 24, 0, 1, 1)), ZERO, 4096, 0))
tried("listmount", lambda: sys_("listmount", ctypes.create_string_buffer(struct.pack("IIQQ", 24, 0, 2**64 - 1, 0)), ZERO, 8, 0))
tried("name_to_handle_at", lambda: sys_("name_to_handle_at", -100, b"/usr", ctypes.create_string_buffer(struct.pack("II", 120, 0), 128), ZERO, 0))
""",
    ),
    Reach(
        "where the host keeps things",
        """
import glob
for path in glob.glob("/proc/[0-9]*/mount*") + glob.glob("/proc/*/task/*/mount*") + ["/proc/mounts", "/proc/self/mountinfo"]:
    tried(path, lambda: [line for line in open(path) if world["folder"] in line or world["place"] in line] or None)
for path in glob.glob("/proc/[0-9]*/cgroup"):
    tried(path, lambda: [line for line in open(path) if "wheelsmith" in line] or None)
for name in os.listdir("/proc/self/fd"):
    tried("descriptor " + name, lambda: world["place"] in os.readlink("/proc/self/fd/" + name) or None)
tried("the maps", lambda: [line for line in open("/proc/self/maps") if world["place"] in line] or None)
tried("the environment", lambda: [value for value in os.environ.values() if world["place"] in value] or None)
""",
        engines=("bwrap",),
    ),
    Reach(
        "kernel settings",
        """
for name in ("kcore", "keys", "timer_list", "sched_debug", "latency_stats", "acpi", "scsi"):
    tried(name, lambda: (os.listdir if os.path.isdir("/proc/" + name) else read)("/proc/" + name) or None)
tried("kallsyms", lambda: [line for line in open("/proc/kallsyms") if int(line.split()[0], 16)][:1] or None)
tried("sysrq-trigger", lambda: os.open("/proc/sysrq-trigger", os.O_WRONLY) if open("/proc/sysrq-trigger", "wb").write(b"") is None else None)
for folder, folders, names in [*os.walk("/sys"), *os.walk("/proc")]:
    if folder.startswith("/proc/") and folder.split("/")[2] in {"self", "thread-self", "pressure", *map(str, range(100_000))}:
        continue
    for name in names:
        try:
            opened = os.open(folder + "/" + name, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            continue
        if not stat.S_ISCHR(os.fstat(opened).st_mode):  # containers put /dev/null in the place of some
            print("ESCAPED: writable", folder, name)
        os.close(opened)
""",
    ),
    Reach(
        "how the machine was started",
        """
tried("cmdline", lambda: read("/proc/cmdline").strip(b"\\0\\n ") or None)
for name in ("partitions", "diskstats", "key-users", "interrupts"):
    tried(name, lambda: read("/proc/" + name) or None)
""",
        engines=("bwrap",),
    ),
    Reach(
        "devices",
        """
HARMLESS = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
for folder, folders, names in os.walk("/dev"):
    for name in names:
        mode = os.lstat(folder + "/" + name).st_mode
        if (stat.S_ISBLK(mode) or stat.S_ISCHR(mode)) and name not in HARMLESS and "pts" not in folder:
            print("ESCAPED: a device", folder, name)
for kind in (stat.S_IFCHR, stat.S_IFBLK):
    for major, minor in ((0, 0), (1, 1), (8, 0), (10, 200), (10, 232), (254, 0)):
        tried(f"mknod {kind:o} {major}:{minor}", lambda: os.mknod(f"/work/{kind}-{major}-{minor}", kind | 0o666, os.makedev(major, minor)) or True)
os.mkfifo("/work/pipe")
print("held: a pipe can be made")
""",
    ),
    Reach(
        "modules, other kernels, the machine",
        """
image = os.open("image", os.O_RDWR | os.O_CREAT)
tried("init_module", lambda: sys_("init_module", b"x", 1, b""))
tried("finit_module", lambda: sys_("finit_module", image, b"", 0))
tried("delete_module", lambda: sys_("delete_module", b"wheelsmith_none", 0))
tried("kexec_load", lambda: sys_("kexec_load", 0, 0, 0, 0))
tried("kexec_file_load", lambda: sys_("kexec_file_load", image, image, 0, b"", 0))
tried("reboot", lambda: sys_("reboot", 0, 0, 0, None))
tried("swapon", lambda: sys_("swapon", b"/work/x", 0))
tried("acct", lambda: sys_("acct", b"/work/x"))
tried("quotactl", lambda: sys_("quotactl", 0x80000100, None, 0, ZERO))
tried("syslog", lambda: sys_("syslog", 3, ZERO, 4096))
tried("/dev/kmsg", lambda: os.open("/dev/kmsg", os.O_RDONLY))
tried("sethostname", lambda: sys_("sethostname", b"escaped", 7))
tried("setdomainname", lambda: sys_("setdomainname", b"escaped", 7))
tried("vhangup", lambda: sys_("vhangup"))
tried("fanotify", lambda: sys_("fanotify_init", 0x200, 0))
tried("lookup by handle", lambda: sys_("open_by_handle_at", -100, ctypes.create_string_buffer(struct.pack("IIQ", 8, 1, 2)), 0))
if X86:
    tried("iopl", lambda: sys_("iopl", 3))
    tried("ioperm", lambda: sys_("ioperm", 0x80, 1, 1))
    tried("modify_ldt", lambda: sys_("modify_ldt", 0, ZERO, 16))
""",
    ),
    Reach(
        "clocks",
        """
now = ctypes.create_string_buffer(struct.pack("qq", int(time.time()), 0))
tried("clock_settime", lambda: sys_("clock_settime", 0, now))
tried("settimeofday", lambda: sys_("settimeofday", now, None))
tried("adjtimex", lambda: sys_("adjtimex", ctypes.create_string_buffer(struct.pack("I", 0x4000), 256)))
tried("clock_adjtime", lambda: sys_("clock_adjtime", 0, ctypes.create_string_buffer(struct.pack("I", 0x4000), 256)))
tried("a clock of its own", lambda: write("/proc/self/timens_offsets"))
""",
    ),
    Reach(
        "typing into a terminal",
        """
import pty, termios
ours, theirs = pty.openpty()
for fd in (0, 1, 2, theirs):
    for more in (0, 1 << 32, 0xFFFFFFFF << 32):
        tried(f"TIOCSTI {fd} {more:x}", lambda: sys_("ioctl", fd, 0x5412 | more, b"x"))
        tried(f"TIOCLINUX {fd} {more:x}", lambda: sys_("ioctl", fd, 0x541C | more, b"\\x03"))
tried("/dev/tty", lambda: os.open("/dev/tty", os.O_RDWR))
tried("/dev/console", lambda: os.write(os.open("/dev/console", os.O_WRONLY | os.O_NOCTTY), b"") >= 0)
if os.get_terminal_size(theirs):
    print("held: a terminal of its own works")
""",
    ),
    Reach(
        "descriptors that were left open",
        """
for name in os.listdir("/proc/self/fd"):
    def left():
        path = os.readlink("/proc/self/fd/" + name)
        return None if int(name) < 3 or path.startswith("/proc/") else path
    tried(name, left)
tried("stdin", lambda: os.read(0, 1) or None)
tried("the folder that it began in", lambda: None if os.getcwd() == "/work" else os.getcwd())
""",
    ),
    Reach(
        "a crash",
        """
import resource
tried("a core for somebody", lambda: None if resource.getrlimit(resource.RLIMIT_CORE) == (1, 1) else resource.getrlimit(resource.RLIMIT_CORE))
for limits in ((0, 0), (0, 1), (-1, -1), (2, 2)):
    tried(f"setrlimit {limits}", lambda: resource.setrlimit(resource.RLIMIT_CORE, limits) or True)
    value = ctypes.create_string_buffer(struct.pack("qq", *limits))
    tried(f"setrlimit itself {limits}", lambda: sys_("setrlimit", 4, value))
    tried(f"prlimit64 {limits}", lambda: sys_("prlimit64", 0, 4, value, None))
    tried(f"with a bit that nobody reads {limits}", lambda: sys_("prlimit64", 0, 4 | 1 << 32, value, None))
def mapped():
    libc.mmap.restype = ctypes.c_void_p
    place = libc.mmap(ctypes.c_void_p(1 << 32), 4096, 3, 0x22 | 0x100000, -1, 0)
    assert place == 1 << 32, place
    ctypes.memmove(place, struct.pack("qq", 0, 0), 16)
    return sys_("prlimit64", 0, 4, ctypes.c_void_p(place), None)
tried("limits at an address that ends in zeros", mapped)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
print("held: other limits can be lowered")
""",
    ),
    Reach(
        "what others share by name",
        """
libc.shmget.restype = ctypes.c_int
tried("System V memory", lambda: libc.shmget(world["ipc_key"], 0, 0) >= 0 or None)
tried("System V memory of its own", lambda: libc.shmget(world["ipc_key"] + 1, 4096, 0o1600) >= 0 or None)
tried("all of it", lambda: [line for line in open("/proc/sysvipc/shm")][1:] or None)
tried("POSIX memory", lambda: read("/dev/shm/" + world["name"]))
tried("a POSIX queue", lambda: sys_("mq_open", b"x", os.O_RDWR | os.O_CREAT, 0o600, None))
tried("inotify", lambda: sys_("inotify_init1", 0))
import fcntl
leased = os.open("/work/leased", os.O_CREAT | os.O_RDONLY)
for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):
    tried(f"a lease, for which others wait {kind}", lambda: fcntl.fcntl(leased, fcntl.F_SETLEASE, kind) == 0 or None)
    tried(f"with a bit that nobody reads {kind}", lambda: sys_("fcntl", leased, 1 << 32 | 1024, kind))
tried("what others do in a folder", lambda: fcntl.fcntl(os.open("/usr", os.O_RDONLY), 1026, 1) == 0 or None)
if fcntl.fcntl(leased, fcntl.F_DUPFD_CLOEXEC, 50) >= 50:
    print("held: other commands work")
tried("the host's sockets", lambda: [line for line in open("/proc/net/unix") if world["abstract"] in line] or None)
""",
    ),
    Reach(
        "calls of another kind",
        """
import mmap
if X86:
    def called(code):
        # Machine code of our own: getpid by the 32-bit table, or with x32's bit.
        page = mmap.mmap(-1, 4096, prot=7)
        page.write(code)
        function = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
        result = function()
        return result if 0 < result < 1 << 31 else None
    tried("int 0x80", lambda: in_child(lambda: called(bytes.fromhex("b814000000cd80c3"))))
    tried("int 0x80, its socketcall", lambda: in_child(lambda: called(bytes.fromhex("b866000000cd80c3"))))
    for number in (39, 41, 512, 520):
        tried(f"x32 {number}", lambda: in_child(lambda: sys_(0x40000000 | number, 40, 1, 0)))
for number in (*range(475, 600), 1000, 1 << 20, (1 << 31) - 1):
    tried(f"call {number}", lambda: in_child(lambda: sys_(number, 0, 0, 0, 0, 0, 0)))
""",
    ),
    Reach(
        "memory and personality",
        """
for value in (0x40000, 0x400000, 0x100000, 0x40000 | 0x20000):
    tried(f"personality {value:x}", lambda: in_child(lambda: sys_("personality", value)))
tried("memory that nobody holds", lambda: sys_("memfd_create", b"x", 0))
tried("secret memory", lambda: sys_("memfd_secret", 0))
tried("vmsplice", lambda: sys_("vmsplice", os.pipe()[1], ZERO, 0, 0))
tried("remap_file_pages", lambda: sys_("remap_file_pages", 0, 0, 0, 0, 0))
for name in ("mbind", "set_mempolicy", "migrate_pages", "move_pages"):
    tried(name, lambda: sys_(name, 0, 0, 0, 0, 0, 0))
tried("a filter with a listener", lambda: in_child(lambda: sys_("seccomp", 1, 8, ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(ZERO))))))
""",
    ),
    Reach(
        "rights",
        """
def status(key):
    return next(line.split()[1] for line in open("/proc/self/status") if line.startswith(key + ":"))
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    tried(name, lambda: int(status(name), 16) or None)
tried("no filter", lambda: True if status("Seccomp") != "2" else None)
tried("new privileges", lambda: True if status("NoNewPrivs") != "1" else None)
header = ctypes.create_string_buffer(struct.pack("Ii", 0x20080522, 0))
tried("capset", lambda: sys_("capset", header, ctypes.create_string_buffer(struct.pack("IIIIII", 1 << 21, 1 << 21, 0, 0, 0, 0))))
tried("ambient", lambda: call("prctl", 47, 2, 21, 0, 0))
tried("the out-of-memory score", lambda: open("/proc/self/oom_score_adj", "w").write("-1000") and read("/proc/self/oom_score_adj") == b"-1000\\n" or None)
tried("a better priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, -5) or True)
tried("setuid", lambda: os.setuid(1234) or True)
tried("setuid 0 from another user", lambda: os.getuid() != 0 and (os.setuid(0) or True))
tried("setgroups", lambda: os.setgroups([0, 1, 2]) or True)
shutil.copy("/bin/sh", "/work/sh")
os.chmod("/work/sh", 0o4755)
tried("a setuid program", lambda: os.getuid() and subprocess.run(["/work/sh", "-p", "-c", "id -u"], capture_output=True).stdout == b"0\\n")
import resource
for number in (resource.RLIMIT_FSIZE, resource.RLIMIT_AS):
    tried(f"a higher limit {number}", lambda: resource.getrlimit(number)[1] != -1 and (resource.setrlimit(number, (-1, -1)) or True))
tried("real time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)) or True)
tried("control groups", lambda: [path for path, _, names in os.walk("/sys/fs/cgroup") if "cgroup.procs" in names and os.access(path + "/cgroup.procs", os.W_OK)] or None)
""",
    ),
    Reach(
        "Python packages of the machine",
        """
import glob, site
for folder in {*sys.path, *site.getsitepackages(), site.getusersitepackages()}:
    if folder.endswith(("-packages",)):
        tried(folder, lambda: os.listdir(folder) or None)
for pattern in ("/usr/lib*/python3*/*-packages/*", "/usr/local/**/*", "/opt/*", sys.base_prefix + "/lib*/python3*/*-packages/*"):
    tried(pattern, lambda: [path for path in glob.glob(pattern) if path not in world["mounts"]][:3] or None)
for name in ("sitecustomize", "usercustomize", "pip", "setuptools", "apt_pkg", "torch", "numpy"):
    tried("import " + name, lambda: __import__(name).__file__)
for program in glob.glob("/usr/bin/python3.*[0-9]"):
    imported = [program, "-c", "import pip, setuptools"]
    tried("import with " + program, lambda: subprocess.run(imported, capture_output=True).returncode == 0 or None)
subprocess.run([sys.executable, "-m", "venv", "--without-pip", "/work/v"], check=True)
if subprocess.run(["/work/v/bin/python", "-c", "import ssl, ctypes, sys; sys.exit(sys.prefix != '/work/v')"]).returncode == 0:
    print("held: an environment made inside works")
""",
        engines=("bwrap",),
    ),
    Reach(
        "toolkits and settings of the machine",
        """
for path in ("/usr/local", "/usr/src", "/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit", "/home", "/root/.ssh", "/var", "/srv", "/boot", "/sys"):
    tried(path, lambda: os.listdir(path)[:3] or None)
for name in ("nvcc", "ptxas", "fatbinary"):
    tried(name, lambda: shutil.which(name))
tried("CUDA's headers", lambda: [name for name in os.listdir("/usr/include") if name.startswith(("cuda", "thrust", "cub"))] or None)
allowed = {"alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"}
tried("/etc", lambda: set(os.listdir("/etc")) - allowed or None)
""",
        engines=("bwrap",),
    ),
)
