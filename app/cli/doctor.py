"""``ocamler doctor``: what this machine has and lacks, and the command that mends it."""

import click


@click.command(short_help="See what this machine has and lacks.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON object.")
def doctor(as_json: bool) -> int:
    """Look at OCaml, the limits on programs, the engine, the models and the settings.

    Exits 7 when OCaml is missing, 6 when no model can run, 2 when the settings cannot be read, else 0.
    """
    import json

    from app.examination import examine

    findings = examine()
    if as_json:
        click.echo(
            json.dumps({"ok": all(f.ok for f in findings), "findings": [f.to_json() for f in findings]})
        )
    else:
        for finding in findings:
            click.echo(f"{'✓' if finding.ok else '✗'} {finding.subject}: {finding.found}")
            if finding.mend:
                click.echo(f"  → {finding.mend}")
    return next((int(finding.code) for finding in findings if not finding.ok and finding.code), 0)
