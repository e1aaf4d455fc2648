"""Who takes part in a run of the yardstick: the offline agents, the whole team, and ablations."""

from enum import StrEnum

from kernelwright.search.spec import TeamSpec


class Variant(StrEnum):
    """A team as it is, or without one thing."""

    OFFLINE = "offline"
    """No model at all: what every other variant is compared with."""
    FULL = "full"
    NO_TOOLS = "no-tools"
    """Models write blind: what they submit is all that is tried."""
    NO_THINKING = "no-thinking"
    NO_ARCHIVE = "no-archive"
    """No other island, sibling, lesson or earlier campaign is shown."""
    ONE_ROLE = "one-role"
    """The coder is a model; planner and repairer are not."""


ABLATIONS = (Variant.NO_TOOLS, Variant.NO_THINKING, Variant.NO_ARCHIVE, Variant.ONE_ROLE)


def team_of(variant: Variant, usual: TeamSpec) -> TeamSpec:
    """Return how models take part in a variant."""
    match variant:
        case Variant.NO_TOOLS:
            return usual.model_copy(update={"tries": False})
        case Variant.NO_ARCHIVE:
            return usual.model_copy(update={"archive": False})
        case Variant.ONE_ROLE:
            return usual.model_copy(update={"roles": ("coder",)})
        case _:
            return usual


def models_of(variant: Variant, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the models of a variant, as a search names them."""
    if variant is Variant.OFFLINE:
        return ()
    if variant is not Variant.NO_THINKING:
        return names
    # Brings the models' clients with it, which naming a variant does not take.
    from kernelwright.agents.session import ModelSpec

    specs = [ModelSpec.parse(name) for name in names]
    return tuple(f"{spec}@none" if spec.is_live else str(spec) for spec in specs)
