"""Operators of Hub kernels: what is registered under a namespace that others may have, however it is written."""

from __future__ import annotations

from forge import Wheel, legal, lie

_OPS = "import torch\nops = torch.ops._x_1\ndef add_op_namespace_prefix(name):\n    return f'_x_1::{name}'\n"
_START = "import torch\nfrom torch.library import Library, custom_op, define\nfrom ._ops import add_op_namespace_prefix, ops\n"
# What kernel-builder writes for a kernel with nothing compiled, whose backend is known once it runs.
_NOARCH = (
    "import torch\ndef _find():\n    name = 'x'\n    backend = torch.version.cuda and 'cuda'\n"
    "    return f'_{name}_{backend}_1a2b'\n_NAME = _find()\nops = getattr(torch.ops, _NAME)\n"
    "def add_op_namespace_prefix(name: str) -> str:\n    return f'{_NAME}::{name}'\n"
)


def _kernel(wheel: Wheel, files: dict[str, str]) -> None:
    made = {"_ops.py": _OPS, **files}
    if "ops.py" in files:
        made["ops.py"] = _START + files["ops.py"]
    wheel.files |= {f"forged/{path}": text.encode() for path, text in made.items()}


def _register(register, name: str, says: str, code: str | dict[str, str]) -> None:
    files = {"ops.py": code} if isinstance(code, str) else code
    how = {"base": "cpu", "family": "operators", "name": name, "arches": ("x86_64",)}
    register(says, **how)(lambda wheel: _kernel(wheel, files))


def _lie(says: str, **how: object):
    return lie("ops", says, **how)


for _name, _code in {
    "aliased module": "import torch.library as L\nL.define('shared::op', '() -> ()')\n",
    "aliased twice": "a = torch.library\nb = a\nc = b.define\nc('shared::op', '() -> ()')\n",
    "augmented": "n = 'shared'\nn += '::op'\ndefine(n, '() -> ()')\n",
    "branch": "import sys\nif sys.platform == 'linux':\n    n = 'shared::op'\nelse:\n    n = ops\ndefine(n, '() -> ()')\n",
    "by default": "def make(ns='shared'):\n    define(f'{ns}::op', '() -> ()')\nmake()\n",
    "by getattr": "getattr(torch.library, 'define')('shared::op', '() -> ()')\n",
    "by importlib": "import importlib\nimportlib.import_module('torch.library').define('shared::op', '() -> ()')\n",
    "by import and getattr": "getattr(__import__('torch'), 'library').define('shared::op', '() -> ()')\n",
    "by sys.modules": "import sys\nsys.modules['torch.library'].define('shared::op', '() -> ()')\n",
    "class of names": "class N:\n    NS = 'shared'\n    OP = NS + '::op'\ndefine(N.OP, '() -> ()')\n",
    "concatenated": "NS = 'sha' 'red'\ndefine(NS + '::' + 'op', '() -> ()')\n",
    "conditional": "define('shared::op' if torch.version.cuda else ops, '() -> ()')\n",
    "dict of functions": "F = {'d': torch.library.define}\nF['d']('shared::op', '() -> ()')\n",
    "dict of names": "N = {'op': 'shared::op'}\ndefine(N['op'], '() -> ()')\n",
    "f-string": "NS = 'shared'\n@custom_op(f'{NS}::op', mutates_args=())\ndef op(x): ...\n",
    "format": "define('{}::{name}'.format('shared', name='op'), '() -> ()')\n",
    "from an unknown default": "import os\nNS = os.environ.get('NS') or 'shared'\ndefine(f'{NS}::op', '() -> ()')\n",
    "function that gives it": "def name(op):\n    ns = 'shared'\n    return f'{ns}::{op}'\ndefine(name('op'), '() -> ()')\n",
    "function that is passed": "def call(f, n):\n    f(n, '() -> ()')\ncall(define, 'shared::op')\n",
    "function of a module that is passed": "def call(t):\n    t.library.define('shared::op', '() -> ()')\ncall(torch)\n",
    "global": "N = None\ndef late():\n    global N\n    N = 'shared::op'\nlate()\ndefine(N, '() -> ()')\n",
    "in a lambda": "make = lambda ns: define(ns + '::op', '() -> ()')\nmake('shared')\n",
    "in a loop": "for n in ('shared::a', 'shared::b'):\n    define(n, '() -> ()')\n",
    "in a method": "class K:\n    NS = 'shared'\n    def go(self):\n        define(f'{self.NS}::op', '() -> ()')\n",
    "inherited": "class A:\n    NS = 'shared'\nclass B(A): ...\ndefine(B.NS + '::op', '() -> ()')\n",
    "in a comprehension": "[define(f'{n}::op', '() -> ()') for n in ['shared']]\n",
    "joined": "define('::'.join(['shared', 'op']), '() -> ()')\n",
    "kind by a constant": "K = 'FRAGMENT'\nLibrary('shared', K)\n",
    "late among many": "def reg(n):\n    define(n, '() -> ()')\n"
    + "".join(f"reg(add_op_namespace_prefix('op{n}'))\n" for n in range(90))
    + "reg('shared::op')\n",
    "library of torch._C": "torch._C._dispatch_library('DEF', 'shared', '')\n",
    "mapped": "list(map(define, ['shared::op'], ['() -> ()']))\n",
    "nested function": "def outer(ns):\n    def inner(n):\n        define(f'{ns}::{n}', '() -> ()')\n    return inner\nouter('shared')('op')\n",
    "overloaded operator": "@torch.library.register_fake(torch.ops.shared.op.default)\ndef _(x): ...\n",
    "partial": "import functools\nfunctools.partial(define, 'shared::op')('() -> ()')\n",
    "partial decorator": "from functools import partial\nmine = partial(custom_op, mutates_args=())\n@mine('shared::op')\ndef op(x): ...\n",
    "percent": "define('%s::%s' % ('shared', 'op'), '() -> ()')\n",
    "prefix and a name": "define(add_op_namespace_prefix('op').replace('_x_1', 'shared'), '() -> ()')\n",
    "rebound prefix": "add_op_namespace_prefix = lambda n: 'shared::' + n\n@custom_op(add_op_namespace_prefix('op'), mutates_args=())\ndef op(x): ...\n",
    "scoped library": "with torch.library._scoped_library('shared', 'DEF') as lib:\n    lib.define('op() -> ()')\n",
    "subclass": "class Mine(torch.library.Library): ...\nMine('shared', 'DEF')\n",
    "subclass by super": "class Mine(Library):\n    def __init__(self):\n        super().__init__('shared', 'DEF')\nMine()\n",
    "spread": "define(*('shared::op', '() -> ()'))\n",
    "spread by keyword": "define(**{'qualname': 'shared::op', 'schema': '() -> ()'})\n",
    "then rebound": "n = add_op_namespace_prefix('op')\nn = 'shared::op'\ndefine(n, '() -> ()')\n",
    "tuple": "d, n = define, 'shared::op'\nd(n, '() -> ()')\n",
    "unknown operator": "import os\ndefine('shared::' + os.environ['OP'], '() -> ()')\n",
    "unknown end of a namespace": "import os\ndefine(f\"shared_{os.environ['X']}::op\", '() -> ()')\n",
    "walrus": "(d := define)('shared::op', '() -> ()')\n",
    "wrapper": "def reg(ns, op, schema='() -> ()'):\n    define(f'{ns}::{op}', schema)\nreg(op='op', ns='shared')\n",
    "wrapper of a decorator": "def mine(name):\n    def dec(fn):\n        return custom_op(name, fn, mutates_args=())\n    return dec\n@mine('shared::op')\ndef op(x): ...\n",
    "in another file": {
        "names.py": "NS = 'shared'\n",
        "ops.py": "from .names import NS\ndefine(f'{NS}::op', '() -> ()')\n",
    },
    "in a module's attribute": {
        "names.py": "NS = 'shared'\n",
        "ops.py": "from . import names\ndefine(names.NS + '::op', '() -> ()')\n",
    },
    "in an absolute import": {
        "names.py": "NS = 'shared'\n",
        "ops.py": "import forged.names as n\ndefine(n.NS + '::op', '() -> ()')\n",
    },
    "in a star import": {
        "names.py": "from torch.library import *\nNS = 'shared'\n",
        "ops.py": "from .names import *\ndefine(f'{NS}::op', '() -> ()')\n",
    },
    "by a wrapper elsewhere": {
        "_w.py": "from torch.library import define\ndef reg(n):\n    define(n, '() -> ()')\n",
        "k.py": "from ._w import reg\nfrom .n import N\nreg(N)\n",
        "n.py": "N = 'shared::op'\n",
    },
    "by an alias elsewhere": {
        "_w.py": "from torch.library import custom_op as c\n",
        "k.py": "from ._w import c\nfrom .n import N\n@c(N)\ndef op(x): ...\n",
        "n.py": "N = 'shared::op'\n",
    },
    "an alias of an alias elsewhere": {
        "_w.py": "from torch.library import custom_op as c\n",
        "_v.py": "from ._w import c as e\n",
        "k.py": "from ._v import e\nfrom .n import N\n@e(N)\ndef op(x): ...\n",
        "n.py": "N = 'shared::op'\n",
    },
    "prefix that is everybody's": {
        "_ops.py": _OPS.replace("_x_1", "shared"),
        "ops.py": "define(add_op_namespace_prefix('op'), '() -> ()')\n",
    },
    "package of operators": {
        "_ops.py": "",
        "k/_ops/__init__.py": _OPS,
        "k/ops.py": "import torch\ntorch.library.define('shared::op', '() -> ()')\n",
    },
}.items():
    _register(_lie, _name, "an operator under a namespace that other kernels may have", _code)

# Code that has no end for those who follow it: it is refused, or what it hides is found.
_DOUBLE = "a0 = 'x'\n" + "".join(f"a{n} = a{n - 1} + a{n - 1}\n" for n in range(1, 200))
_TUPLES = "a0 = ('x',)\n" + "".join(f"a{n} = (a{n - 1}, a{n - 1})\n" for n in range(1, 200))
_CALLS = "def f0(x):\n    return x\n" + "".join(
    f"def f{n}(x):\n    return f{n - 1}(x) + f{n - 1}(x)\n" for n in range(1, 60)
)
_CHAIN = "a0 = define\n" + "".join(f"a{n} = a{n - 1}\n" for n in range(1, 400))
for _name, _code in {
    "texts that double": _DOUBLE + "define('shared::' + a199, '() -> ()')\n",
    "tuples that double": _TUPLES + "define('shared::op', a199)\ndefine(f'shared::{a199}', '() -> ()')\n",
    "calls that double": _CALLS + "define(f'{f59(\"a\")}', '() -> ()')\ndefine('shared::op', '() -> ()')\n",
    "function of itself": "def f(x):\n    return f(f(x)) + f(x)\ndefine(f('a'), '() -> ()')\ndefine('shared::op', '() -> ()')\n",
    "chain of names": _CHAIN + "a399('shared::op', '() -> ()')\n",
    "chain of letters": "n = 'shared::op'\ndefine(" + " + ".join(["n", *["''"] * 3000]) + ", '() -> ()')\n",
    "names in a circle": "a = b = define\na = b\nb = a\ndefine('shared::op', '() -> ()')\n",
    "wide format": "define('{:>99999999}'.format('x'), '() -> ()')\ndefine('%99999999s' % 'x', '() -> ()')\ndefine('shared::op', '() -> ()')\n",
    "long repetition": "define('x' * 10 ** 12, '() -> ()')\ndefine('x' * 999999999999, '() -> ()')\ndefine('shared::op', '() -> ()')\n",
    "many loops": "".join(f"{'    ' * n}for a{n} in 'abcdefghij':\n" for n in range(15))
    + "    " * 15
    + "define('shared::' + "
    + " + ".join(f"a{n}" for n in range(15))
    + ", '() -> ()')\n",
}.items():
    _register(_lie, f"hostile: {_name}", "an operator under a namespace that other kernels may have", _code)

for _name, _says, _code in (
    (
        "alias of the prefix",
        "it is the kernel's own",
        "p = add_op_namespace_prefix\n@custom_op(p('op'), mutates_args=())\ndef op(x): ...\n",
    ),
    (
        "another library's define",
        "it has nothing to do with torch",
        "import cffi\ncffi.FFI().define('shared::op')\ncffi.define('int a; // ::')\n",
    ),
    (
        "class of operators",
        "it is the kernel's own",
        "class K:\n    NS = '_x_1'\n    def go(self):\n        define(f'{self.NS}::op', '() -> ()')\n",
    ),
    (
        "comment and docstring",
        "words are no code",
        "'''torch.library.define('shared::op')'''\n# define('shared::op')\nx = \"define('shared::op')\"\n",
    ),
    ("constant of its own", "it is the kernel's own", "@custom_op('_x_1::op', mutates_args=())\ndef op(x): ...\n"),
    (
        "dead code",
        "nothing of it runs",
        "if False:\n    define('shared::op', '() -> ()')\nwhile 0:\n    define('shared::op', '() -> ()')\n",
    ),
    (
        "fallback of a file that is there",
        "it is never fallen back on",
        "try:\n    from ._ops import add_op_namespace_prefix as p\nexcept ImportError:\n    def p(n):\n        return 'shared::' + n\n@custom_op(p('op'), mutates_args=())\ndef op(x): ...\n",
    ),
    ("for later registrations", "who calls it is not in the wheel", "def reg(name):\n    define(name, '() -> ()')\n"),
    (
        "implementation of torch's own",
        "torch lets others implement its operators",
        "lib = Library('aten', 'IMPL')\nlib.impl('relu', lambda x: x, 'CUDA')\n",
    ),
    (
        "in a loop",
        "each is the kernel's own",
        "for n in ['a', 'b']:\n    @torch.library.register_fake(add_op_namespace_prefix(n))\n    def _(x): ...\n",
    ),
    (
        "library of its own",
        "it is the kernel's own",
        "lib = Library(ops.__name__.split('.')[-1], 'FRAGMENT')\nlib.define('op() -> ()')\n",
    ),
    (
        "library of its own by a name",
        "it is the kernel's own",
        "NS = add_op_namespace_prefix('').removesuffix('::')\nlib = Library(NS, 'DEF')\n",
    ),
    (
        "operator that is registered",
        "it is the kernel's own",
        "@torch.library.register_fake(ops.op.default)\ndef _(x): ...\n",
    ),
    (
        "own name of a method",
        "who is called is no part of torch",
        "class T:\n    def define(self, n): ...\n    def impl(self, n): ...\nT().define('shared::op')\nT().impl('shared::op')\n",
    ),
    (
        "prefix of a prefix",
        "it is the kernel's own",
        {
            "_compat.py": "from ._ops import add_op_namespace_prefix as _p\ndef add_op_namespace_prefix(name: str) -> str:\n    return _p(f'sub__{name}')\n",
            "ops.py": "from ._compat import add_op_namespace_prefix\n@custom_op(add_op_namespace_prefix('op'), mutates_args=())\ndef op(x): ...\n",
        },
    ),
    ("program", "it is run as a program only", "if __name__ == '__main__':\n    define('shared::op', '() -> ()')\n"),
    (
        "rebound",
        "the last value counts",
        "n = 'shared::op'\nn = add_op_namespace_prefix('op')\ndefine(n, '() -> ()')\n",
    ),
    (
        "rebound in both arms",
        "the last value counts",
        "import sys\nn = 'shared::op'\nif sys.platform == 'linux':\n    n = add_op_namespace_prefix('a')\nelse:\n    n = add_op_namespace_prefix('b')\ndefine(n, '() -> ()')\n",
    ),
    (
        "registered on the operator",
        "it needs no name",
        "@custom_op(add_op_namespace_prefix('op'), mutates_args=())\ndef op(x): ...\n@op.register_fake\ndef _(x): ...\nop.register_autograd(lambda *_: None)\n",
    ),
    ("shared text", "it is nobody's operator", "print('shared::op')\nx = 'shared::op'.split('::')\n"),
    (
        "unread name",
        "what cannot be read is no lie",
        "import os\nn = os.environ['NS']\ndefine(f'{n}::op', '() -> ()')\n",
    ),
    (
        "wrapper of a decorator",
        "it is the kernel's own",
        "def triton_op(name, fn=None, /, *, mutates_args=()):\n    def dec(fn):\n        return custom_op(name, fn, mutates_args=mutates_args)\n    return dec if fn is None else dec(fn)\n@triton_op(add_op_namespace_prefix('op'), mutates_args=())\ndef op(x): ...\n",
    ),
    (
        "backend that is known later",
        "it is the kernel's own",
        {
            "_ops.py": _NOARCH,
            "ops.py": "@custom_op(add_op_namespace_prefix('op'), mutates_args=())\ndef op(x): ...\nlib = Library('_x_cuda_1a2b', 'FRAGMENT')\n",
        },
    ),
    (
        "quarrel with a name",
        "a function by that name is called with other things, too",
        "def q(a, b):\n    return a + b\nq('shared::', 'x')\ndefine(q(add_op_namespace_prefix('o'), 'p'), '() -> ()')\n",
    ),
):
    _register(legal, _name, _says, _code)
