# SPDX-License-Identifier: Apache-2.0
"""docs/reference/robot_file.md from the dataclasses of the robot file."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

from continuum_robot.robot.description import Robot
from continuum_robot.robot.doors import shipped
from continuum_robot.robot.file.derived import RULES
from continuum_robot.robot.schema import kind_of, quantity_of

INTRODUCTION = """\
# The robot file

<!-- Written by `make pages`. -->

One YAML file describes a robot: `config/robots/<name>.yaml`, or any path. SI units only. The file is read strictly: an
unknown key, a missing or impossible value, a list of the wrong length, NaN or a key given twice is an error that names
file, line, key, value and what is allowed. It holds at most 5,000 values, every YAML alias counted as all that
it stands for.

## Your own robot
A segment with three tendons and three servos on one bus:

```yaml
schema_version: 2
include: [parts/xl430_w250]        # XL430-W250 servos with spools of 10 mm
name: my_robot
gravity_m_per_s2: [0, 0, -9.81]    # the robot stands upright; +9.81 if it hangs

segments:
  - name: only
    length_m: 0.15
    backbone: {youngs_modulus_pa: 58.0e+9, density_kg_per_m3: 6400, outer_diameter_m: 0.0012}
    disks: {count: 8, mass_kg: 0.001, radius_m: 0.01}
    tendons: {count: 3, pitch_radius_m: 0.008}
    bending_damping_nms: 5.0e-4    # a guess

limits: {maximum_n: 40.0, maximum_displacement_m: 0.02}
control: {pretension_n: 3.0}
reference: {kind: chirp, amplitude_m: [0.004, 0.002], frequency_hz: [0.2]}

hardware:
  serial_number: "1"
  tendon_actuators: {kind: dynamixel, port: /dev/ttyUSB0, model: XL430-W250, mode: extended_position}

assumed:
  - segments[0].bending_damping_nms
```

Save it as `my_robot.yaml`, check it, and run it in simulation. For the real one, follow
[a servo robot](../how-to/servo_robot.md).

    continuum-robot check my_robot.yaml
    continuum-robot demo --robot my_robot.yaml

1. `check` prints masses, stiffness, natural frequencies, and every derived value. Compare them with the robot you have.
2. For other motors, replace `include` by `actuators` with the values of the data sheet, and `tendon_actuators` by
   [your device](../how-to/motors.md). `actuators.heat` describes how the motors warm up:
   [where to get its numbers](../how-to/motors.md#heat).
3. Motors that take tensions need `control.gains`, which `continuum-robot tune` finds. `limits.minimum_n` keeps the
   tendons from going slack; a fault ends at `limits.safe_n`. `config/robots/opencr_five_tendon.yaml` is such a robot.
4. Add an entry to `segments` for each further segment, and two coordinates to `amplitude_m`: `two_segment.yaml`. Two
   tendons a segment bend it in one plane, and have one coordinate.
5. Tendons may differ in spool, motor and limits. `tendons` names them by number, in both sections:
   `actuators: {tendons: [{tendons: [7, 8, 9], spool_radius_m: 0.006}]}` and
   `limits: {tendons: [{tendons: [7, 8, 9], maximum_n: 25.0}]}`; all else is as stated for all.
   `examples/small_distal_spools.yaml` is such a robot. Stiffness has keys of its own (`stiffness_n_per_m`).
6. If you don't know a value, enter your best guess and list its key under `assumed`: `check` prints it, so that nobody
   takes it for measured.

## In parts
`include: [body.yaml, drives.yaml]` names robot files, by their paths from the file's own folder or as shipped names,
whose values hold where the file itself has none. Mappings are merged, lists and numbers replaced whole; two included
files may not give one key different values. `set` gives single values by their dotted keys. What an included file lists
under `assumed` no longer counts for keys that the file itself gives. A second robot of a design copies nothing:

    schema_version: 2
    include: [our_design.yaml]
    name: the_second
    hardware: {serial_number: "2", ...}
    set:
      segments[0].tendons.angle_offset_rad: 0.02

Commands that write a robot file with what they found put it where the file itself has the key, else under `set`, and
list under `provenance` what was found, with its deviation, by which command, from which data and when.
`continuum-robot convert OLD.yaml --out NEW.yaml` writes a file of version 1 anew; it is read without, too.

## What may be left out
Where another value says them, some are derived, and printed by `check`:

| key | where `actuators.command` is | derived as |
|---|---|---|
{derived}
| `hardware.tendon_actuators.motors` | any | by its kind, in the order of the tendons; not in a list of sections |
| name and counter in `hardware.string_encoders.strings` | any | in the order of `strings` |

## What is needed
What each command needs: geometry and statics only `segments`; `demo` and `up` also `actuators`, `limits`, `control` and
`reference`; `replay` a `recording`. Keys marked *live* may be changed as ROS parameters while the robot is active.

Tendon j of a segment stands at `angle_offset_rad` + 2π(j − 1)/`count` from +x, counter-clockwise seen from the tip.
"""


def page() -> str:
    """The whole page as Markdown: every key with unit, range, default and meaning."""
    derived = "\n".join(f"| `{rule.key}` | {rule.command or 'any'} | {rule.why} |" for rule in RULES)
    return "\n".join([INTRODUCTION.replace("{derived}", derived), *_sections(Robot, "", set())])


def _sections(kind: type[Any], path: str, devices: set[Any]) -> list[str]:
    """Of a section and those in it; a kind of ``devices`` that two keys may have is described once."""
    hints = typing.get_type_hints(kind)
    lines = [f"## {path or 'The top level'}", "", (kind.__doc__ or "").split("\n", maxsplit=1)[0], ""]
    lines += ["| key | unit | allowed | default | meaning |", "|---|---|---|---|---|"]
    nested: list[str] = []
    for field in dataclasses.fields(kind):
        if not field.init:
            continue
        quantity, (options, is_list) = quantity_of(field), _plain(hints[field.name])
        if quantity.door and options != [str]:
            options = [option for option in options if dataclasses.is_dataclass(option)]
            options += [option for option in shipped(quantity.door).values() if option not in devices]
            devices |= set(options)
        allowed = _allowed(field, options[0], is_list) if options else "see above"
        meaning = quantity.doc + (" *(live)*" if quantity.live else "")
        lines.append(f"| `{field.name}` | {quantity.unit} | {allowed} | {_default(field)} | {meaning} |")
        place = f"{path}.{field.name}".lstrip(".") + ("[]" if is_list else "")
        for option in options:
            if dataclasses.is_dataclass(option):
                kind_name = kind_of(typing.cast("type[Any]", option))
                # Without kinds, the keys tell which it is: it is called by its type's docstring.
                suffix = f" of kind {kind_name}" if kind_name else f" {_first_words(option)}"
                suffix = suffix if len(options) > 1 or quantity.door else ""
                nested += _sections(typing.cast("type[Any]", option), place + suffix, devices)
    return [*lines, "", *nested]


def _first_words(option: Any) -> str:
    first: str = option.__doc__.strip().partition("\n")[0]
    return first[0].lower() + first[1:].rstrip(".")


def _plain(hint: Any) -> tuple[list[Any], bool]:
    """The types of a value, or of a list's entries, and whether it is a list; without ``None``."""
    options = [hint]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
    if typing.get_origin(options[0]) is tuple:
        return _plain(typing.get_args(options[0])[0])[0], True
    return options, False


def _allowed(field: dataclasses.Field[Any], inner: Any, is_list: bool) -> str:
    quantity = quantity_of(field)
    if dataclasses.is_dataclass(inner):
        text = "see below"
    elif quantity.choices:
        text = ", ".join(quantity.choices)
    elif inner in (bool, str):
        text = "true, false" if inner is bool else "text"
    else:
        bounds = dataclasses.replace(quantity, unit="", length=None).expected()
        text = bounds.replace("a number in ", "").replace("a number", "any")
        text = f"whole, {text}" if inner is int else text
    if not is_list:
        return text
    return f"list of {quantity.length}: {text}" if quantity.length else f"list: {text}"


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return "all defaults"
    if field.default is dataclasses.MISSING:
        return "**required**"
    if field.default is None or field.default in ("", ()):
        return "none"
    return f"`{list(field.default) if isinstance(field.default, tuple) else field.default}`"
