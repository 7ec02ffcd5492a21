"""Which module imports which, read from source without importing anything, and rules over that."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Module:
    """One module: its dotted name, the modules of ours it imports, and the full names of all it imports."""

    name: str
    ours: frozenset[str]
    imports: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rule:
    """What the modules below ``of`` may not import, themselves or through others of ours.

    ``allowed`` (if not None) are the only modules outside ``of`` itself that they may import of the
    package ``allowed_of``; the package itself, for its version, is always allowed.
    """

    of: tuple[str, ...]
    forbidden: tuple[str, ...] = ()
    exempt: tuple[str, ...] = ()
    allowed_of: str = ""
    allowed: tuple[str, ...] | None = None

    def binds(self, name: str) -> bool:
        return _is_in(name, self.of) and not _is_in(name, self.exempt)


def _is_in(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in places)


def read_sources(roots: Mapping[str, Path]) -> dict[str, tuple[str, bool]]:
    """Dotted name -> (source, whether it is a package) of every module of the packages in ``roots``."""
    found = {}
    for package, folder in roots.items():
        for path in sorted(folder.rglob("*.py")):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            is_package = parts[-1] == "__init__"
            found[".".join(parts[:-1] if is_package else parts)] = (path.read_text("utf-8"), is_package)
    return found


def modules_of(sources: Mapping[str, tuple[str, bool]]) -> dict[str, Module]:
    """Every module with what it imports, also inside functions; imports for type checkers alone don't count."""
    found = {}
    for name, (source, is_package) in sources.items():
        imports = frozenset(_imports(ast.parse(source), name, is_package))
        ours = frozenset(module for full in imports if (module := _nearest(full, sources)) and module != name)
        found[name] = Module(name, ours, imports)
    return found


def _nearest(full: str, known: Mapping[str, object]) -> str:
    """The module that ``full`` is, or is an attribute of; "" if it is none of ours."""
    if full in known:
        return full
    parent = full.rpartition(".")[0]
    return parent if parent in known else ""


def _imports(node: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from _imports(ast.Module([other], []), module, is_package)
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            base = child.module or ""
            if child.level:
                parts = module.split(".")
                above = parts[: len(parts) - child.level + is_package]
                base = ".".join([*above, base] if base else above)
            yield from (f"{base}.{alias.name}" for alias in child.names)
        else:
            yield from _imports(child, module, is_package)


def broken(rule: Rule, modules: Mapping[str, Module]) -> list[str]:
    """Every way in which ``rule`` is broken, as the chain of imports that does it."""
    found = []
    for module in modules.values():
        if not rule.binds(module.name):
            continue
        for chain, full in _reachable(module.name, modules):
            if _is_in(full, rule.forbidden):
                found.append(" -> ".join([*chain, full]))
        if rule.allowed is not None:
            found += [
                f"{module.name} -> {other}"
                for other in sorted(module.ours)
                if _is_in(other, (rule.allowed_of,)) and other != rule.allowed_of and not _is_in(other, rule.allowed)
            ]
    return found


def _reachable(start: str, modules: Mapping[str, Module]) -> Iterator[tuple[list[str], str]]:
    """Every full name imported by ``start`` or by the modules of ours it leads to, with the way there."""
    seen, waiting = {start}, [[start]]
    while waiting:
        chain = waiting.pop()
        module = modules[chain[-1]]
        yield from ((chain, full) for full in sorted(module.imports))
        for other in sorted(module.ours - seen):
            seen.add(other)
            waiting.append([*chain, other])


def cycles(modules: Mapping[str, Module]) -> list[str]:
    """Rings of modules that import each other, each as the chain that closes it."""
    found: list[str] = []
    done: set[str] = set()

    def visit(name: str, chain: list[str]) -> None:
        if name in chain:
            found.append(" -> ".join([*chain[chain.index(name) :], name]))
            return
        if name in done:
            return
        for other in sorted(modules[name].ours):
            visit(other, [*chain, name])
        done.add(name)

    for name in sorted(modules):
        visit(name, [])
    return found
