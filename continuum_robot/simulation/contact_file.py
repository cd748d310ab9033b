# SPDX-License-Identifier: Apache-2.0
"""Contacts of a simulated robot as given in a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from continuum_robot.errors import ParameterError
from continuum_robot.robot.description import Robot
from continuum_robot.robot.file.plain_yaml import plain_yaml, read_yaml
from continuum_robot.robot.schema import Source, quantity, read, refuse
from continuum_robot.simulation.contact import Contact


def parse_contacts(text: str, robot: Robot, file: Path | str | None = None) -> tuple[Contact, ...]:
    """Read contacts from YAML text: a mapping with the key ``contacts``, a list."""
    path = None if file is None else Path(file)
    mapping, lines = plain_yaml(text, path)
    source = Source(path, lines)
    found: ContactList = read(ContactList, mapping, source)
    for index, contact in enumerate(found.contacts):
        try:
            contact.location_m(robot)
        except ParameterError as error:
            key = "arc_length_m" if contact.disk is None else "disk"
            raise source.error(f"contacts[{index}].{key}", getattr(contact, key), error.expected) from None
    return found.contacts


def load_contacts(file: Path | str, robot: Robot) -> tuple[Contact, ...]:
    """Read a file of contacts; arguments and errors as for :func:`parse_contacts`."""
    path = Path(file)
    return parse_contacts(read_yaml(path, "contact file"), robot, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactList:
    """What a contact file holds."""

    contacts: tuple[Contact, ...] = quantity("what touches the robot")

    def __post_init__(self) -> None:
        names = [contact.name for contact in self.contacts]
        if len(set(names)) != len(names):
            raise refuse("contacts", names, "a different name for each contact")
