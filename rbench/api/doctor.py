"""Check which resources, data sets and encoders are on this machine, and say how to get the others."""

from __future__ import annotations

from rbench import load as loading
from rbench.errors import ResourceError
from rbench.load.registry import Registry
from rbench.plan.lineage import trained_root, weights_source
from rbench.plan.prepare import Options
from rbench.spec import Strict


class Check(Strict):
    """One line of `rbench doctor`: whether and where something is, or how to get it. `ok` None: there, not verified."""

    kind: str
    name: str
    ok: bool | None
    where: str = ""
    remedy: str = ""


def doctor(options: Options | None = None) -> list[Check]:
    """Check every resource profile, data set and encoder: whether and where it is, or exactly how to get it."""
    from rbench import resources
    from rbench.encoders.locate import locate
    from rbench.tasks import locate_contrast, locate_task

    options = options or Options()
    registry = Registry(options.include)
    checks = [
        Check(kind=f"resources {name}", name=kind, ok=ok, where=where, remedy=remedy)
        for name in registry.names("resources")
        for kind, what, ok, where, remedy in resources.checks(loading.load_resources(name, registry), options.models)
    ]
    for name in registry.names("tasks"):
        try:
            where = locate_task(loading.load_task(name, registry), options.data)
            checks.append(Check(kind="task", name=name, ok=True, where=where))
        except ResourceError as error:
            checks.append(Check(kind="task", name=name, ok=False, remedy=str(error)))
    for name in registry.names("contrast"):
        try:
            where = locate_contrast(loading.load_contrast(name, registry), options.data)
            checks.append(Check(kind="contrast set", name=name, ok=True, where=where))
        except ResourceError as error:
            checks.append(Check(kind="contrast set", name=name, ok=False, remedy=str(error)))
    encoders = {name: loading.load_encoder(name, registry) for name in registry.names("encoders")}
    for name in encoders:
        source = weights_source(name, encoders)
        if source is None:
            checks.append(
                Check(kind="encoder", name=name, ok=True, where=f"trained by rbench ({trained_root(name, encoders)})")
            )
            continue
        try:
            checks.append(Check(kind="encoder", name=name, ok=True, where=str(locate(source, options.models).where)))
        except ResourceError as error:
            checks.append(Check(kind="encoder", name=name, ok=False, remedy=str(error)))
    return checks
