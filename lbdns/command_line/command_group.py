"""A click command group that suggests a similar command for an unknown command."""

from __future__ import annotations

import click

from lbdns.text.suggestions import suggestion


class SuggestingGroup(click.Group):
    """A command group whose error about an unknown command names the most similar command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        known = self.list_commands(ctx)
        if word not in known and not word.startswith("-"):
            ctx.fail(f"unknown command {word!r}{suggestion(word, known)}")
        return super().resolve_command(ctx, args)
