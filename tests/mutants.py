"""Change one line of the product at a time, and see whether the tests of its area notice.

`python -m tests.mutants` draws `--count` single-line mutations from a seed, applies each in a
temporary copy of the tree, runs the tests of that area until the first failure, and prints the
share that was caught with the survivors. A survivor is a missing test, or a line that is not
needed. Some change nothing that can be seen (a wait that is a little longer): read them.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
COPIED = (".ci", "mmconv", "model_zoo", "judges", "images", "tests", "configs", "pyproject.toml")

AREAS = {
    "engine": (["mmconv/engine/*.py"], ["tests/mmconv/engine"]),
    "store": (["mmconv/store/*.py"], ["tests/mmconv/store"]),
    "stats": (["mmconv/stats/**/*.py"], ["tests/mmconv/stats"]),
    "parsers": (["judges/parsers/*.py"], ["tests/judges"]),
    "images": (["images/decode.py", "images/policy.py"], ["tests/images"]),
    "metrics": (
        ["mmconv/benchmarks/base/metrics.py"],
        [f"tests/mmconv/benchmarks/{folder}" for folder in ("base", "convbench", "mtbench101")],
    ),
}
"""Area -> the files that are changed, and what pytest runs for them."""

COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
CALCULATED: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
}


@dataclass(frozen=True)
class Mutation:
    """One line of one file, before and after."""

    area: str
    path: str
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}\n    - {self.before.strip()}\n    + {self.after.strip()}"


def find_mutations(area: str, path: Path) -> Iterator[Mutation]:
    """Every single-line mutation of a file; a constant of a module (a limit, a time) stays."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    for node in walk_functions(ast.parse(source)):
        for start, end, new in replacements(node, source):
            if start[0] == end[0]:
                line = lines[start[0] - 1].encode()
                after = (line[: start[1]] + new.encode() + line[end[1] :]).decode()
                name = str(path.relative_to(ROOT))
                yield Mutation(area, name, start[0], lines[start[0] - 1], after)


def walk_functions(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes of the bodies of all functions, each once."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    seen: set[int] = set()
    for function in functions:
        for statement in function.body:
            for node in ast.walk(statement):
                if id(node) not in seen:
                    seen.add(id(node))
                    yield node


Place = tuple[int, int]


def replacements(node: ast.AST, source: str) -> Iterator[tuple[Place, Place, str]]:
    """Where the node's text begins and ends, and a text to put there instead."""

    def text_of(part: ast.AST) -> str:
        return ast.get_source_segment(source, part) or ""

    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        right = node.comparators[0]
        new = f"{text_of(node.left)} {COMPARED[type(node.ops[0])]} {text_of(right)}"
        yield *place(node), new
    elif isinstance(node, ast.BinOp) and type(node.op) in CALCULATED:
        new = f"{text_of(node.left)} {CALCULATED[type(node.op)]} {text_of(node.right)}"
        yield *place(node), new
    elif isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        yield *place(node), f"({word.join(text_of(value) for value in node.values)})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield *place(node), f"({text_of(node.operand)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        changed = not node.value if isinstance(node.value, bool) else node.value + 1
        yield *place(node), repr(changed)
    elif isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.BoolOp):
        yield *place(node.test), f"not ({text_of(node.test)})"
    elif is_droppable(node):
        yield *place(node), "pass"


def is_droppable(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant | ast.Yield | ast.YieldFrom)
    return isinstance(node, ast.AugAssign | ast.Raise | ast.Delete | ast.Continue | ast.Break)


def place(node: ast.AST) -> tuple[Place, Place]:
    assert isinstance(node, ast.expr | ast.stmt)
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


def draw(count: int, seed: int, areas: list[str]) -> list[Mutation]:
    """As many mutations of each area, at most one of a line."""
    chosen = []
    for number, area in enumerate(areas):
        patterns, _ = AREAS[area]
        if missing := [pattern for pattern in patterns if not any(ROOT.glob(pattern))]:
            raise SystemExit(f"area {area}: no file matches {', '.join(missing)}")
        drawn = random.Random(f"{seed} {area}")
        paths = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
        found = [mutation for path in paths for mutation in find_mutations(area, path)]
        drawn.shuffle(found)
        by_line = {(mutation.path, mutation.line): mutation for mutation in found}
        share = count // len(areas) + (number < count % len(areas))
        chosen += [*by_line.values()][:share]
    return chosen


def nearest_tests(folder: Path, area: str, path: str) -> list[str]:
    """The test files of the area that name the module, to run before the others."""
    module = path.removesuffix(".py").replace("/", ".")
    tests = sorted(test for root in AREAS[area][1] for test in (folder / root).rglob("test_*.py"))
    return [str(test.relative_to(folder)) for test in tests if module in test.read_text("utf-8")]


def run_tests(folder: Path, area: str, timeout: float, path: str = "") -> str:
    """How the area's tests end: "passed", "caught" or "timeout" (which counts as caught)."""
    tests = [*(nearest_tests(folder, area, path) if path else ()), *AREAS[area][1]]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["--timeout=60", f"--basetemp={folder / 'pytest'}", *tests]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    try:
        ended = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return "timeout"
    if not path and ended.returncode:
        print(ended.stdout.decode()[-3000:])  # noqa: T201
    return "passed" if ended.returncode == 0 else "caught"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=60, help="how many mutations (60)")
    parser.add_argument("--seed", type=int, default=19, help="what draws them (19)")
    parser.add_argument("--area", action="append", choices=AREAS, help="only this area")
    parser.add_argument("--timeout", type=float, default=400, help="seconds for each (400)")
    parser.add_argument("--list", action="store_true", help="print them and run nothing")
    options = parser.parse_args()
    areas = options.area or [*AREAS]
    mutations = draw(options.count, options.seed, areas)
    if options.list:
        print(*mutations, sep="\n")  # noqa: T201
        return
    survivors = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in COPIED:
            copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy2
            copy(ROOT / part, folder / part)
        for area in areas:
            if (ended := run_tests(folder, area, 3 * options.timeout)) != "passed":
                raise SystemExit(f"{area}: the tests fail without a mutation ({ended})")
        for mutation in mutations:
            path = folder / mutation.path
            whole = path.read_text(encoding="utf-8")
            lines = whole.splitlines(keepends=True)
            lines[mutation.line - 1] = mutation.after + "\n"
            path.write_text("".join(lines), encoding="utf-8")
            began = time.monotonic()
            ended = run_tests(folder, mutation.area, options.timeout, mutation.path)
            path.write_text(whole, encoding="utf-8")
            print(f"{ended} after {time.monotonic() - began:.0f} s: {mutation}", flush=True)  # noqa: T201
            if ended == "passed":
                survivors.append(mutation)
    caught = len(mutations) - len(survivors)
    print(f"{caught} of {len(mutations)} caught ({caught / len(mutations):.0%}); survivors:")  # noqa: T201
    print(*survivors, sep="\n")  # noqa: T201


if __name__ == "__main__":
    main()
