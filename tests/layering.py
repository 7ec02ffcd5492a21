"""Reads the imports of all modules from their source code, and finds imports that violate the layering."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Module:
    """A module: its dotted name, the project's modules that it imports, and the full names of all its imports."""

    name: str
    ours: frozenset[str]
    imports: frozenset[str]


@dataclass(frozen=True)
class Ban:
    """Modules below ``of`` must not import anything in ``forbidden``, directly or through other project modules."""

    of: tuple[str, ...]
    forbidden: tuple[str, ...]

    def binds(self, name: str) -> bool:
        return _is_in(name, self.of)


def _is_in(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in places)


def read_sources(roots: Mapping[str, Path]) -> dict[str, tuple[str, bool]]:
    """Return the modules of the packages in ``roots`` as dotted name -> (source code, whether it is a package)."""
    found = {}
    for package, folder in roots.items():
        for path in sorted(folder.rglob("*.py")):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            is_package = parts[-1] == "__init__"
            found[".".join(parts[:-1] if is_package else parts)] = (path.read_text("utf-8"), is_package)
    return found


def modules_of(sources: Mapping[str, tuple[str, bool]], *, type_only: bool = True) -> dict[str, Module]:
    """Return every module with its imports, including those inside functions.

    ``type_only`` includes imports under ``if TYPE_CHECKING``.
    """
    found = {}
    for name, (source, is_package) in sources.items():
        imports = frozenset(_imports(ast.parse(source), name, is_package, type_only))
        ours = frozenset(module for full in imports if (module := _nearest(full, sources)) and module != name)
        found[name] = Module(name, ours, imports)
    return found


def _nearest(full: str, known: Mapping[str, object]) -> str:
    """Return ``full`` if it names a project module, else its parent if that is a project module, else ""."""
    if full in known:
        return full
    parent = full.rpartition(".")[0]
    return parent if parent in known else ""


def _imports(node: ast.AST, module: str, is_package: bool, type_only: bool) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and not type_only and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from _imports(ast.Module([other], []), module, is_package, type_only)
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
            yield from _imports(child, module, is_package, type_only)


def layer_of(name: str, layers: Sequence[str]) -> int | None:
    """Return the index of the layer of module ``name``: the layer with the longest matching package name."""
    matches = [layer for layer in layers if _is_in(name, (layer,))]
    return layers.index(max(matches, key=len)) if matches else None


def upward_imports(layers: Sequence[str], modules: Mapping[str, Module]) -> list[str]:
    """Return every import that breaks the order of layers, and every module that belongs to no layer."""
    found = [f"{name}: in no layer" for name in modules if layer_of(name, layers) is None]
    for module in modules.values():
        here = layer_of(module.name, layers)
        for other in sorted(module.ours):
            there = layer_of(other, layers)
            if here is not None and there is not None and there > here:
                found.append(f"{module.name} ({layers[here]}) -> {other} ({layers[there]})")
    return found


def broken(ban: Ban, modules: Mapping[str, Module]) -> list[str]:
    """Return every violation of ``ban``, as a chain of imports."""
    found = []
    for module in modules.values():
        if ban.binds(module.name):
            for chain, full in _reachable(module.name, modules):
                if _is_in(full, ban.forbidden):
                    found.append(" -> ".join([*chain, full]))
    return found


def _reachable(start: str, modules: Mapping[str, Module]) -> Iterator[tuple[list[str], str]]:
    """Yield the full name of each direct or indirect import of ``start``, with the chain of imports."""
    seen, waiting = {start}, [[start]]
    while waiting:
        chain = waiting.pop()
        module = modules[chain[-1]]
        yield from ((chain, full) for full in sorted(module.imports))
        for other in sorted(module.ours - seen):
            seen.add(other)
            waiting.append([*chain, other])


def cycles(modules: Mapping[str, Module]) -> list[str]:
    """Return all import cycles, each as a chain of imports."""
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
