# SPDX-License-Identifier: Apache-2.0
"""The generated parts of docs/papers: the reference, which equation is where in the code, each experiment's numbers.

References are those of CITATION.cff. The numbers beside the paper's are those of docs/papers/numbers/NAME.json, which
``continuum-robot experiment NAME --store`` writes.
"""

from __future__ import annotations

from pathlib import Path

from pages.citations import equations_table, reference
from pages.paper_results import sections
from pages.text import filled

EQUATIONS: dict[str, dict[str, str]] = {
    "muhmann": {
        "(1), (2), (3), (4), (5)": "tendon constraint; displacements to Clarke coordinates by M_P, and back",
        "(6), (7), (8)": "Clarke coordinates to the arc's direction and angle, and back",
        "(9), (10), (11), (12), (13)": "kinetic energy of backbone and tendons; they slide through all segments before",
        "(14)": "kinetic energy of the disks",
        "(15), (16), (17), (18), (19)": "potential energy: gravity, and bending of backbone and tendons",
        "(20)": "damping of the bending angle",
        "(21), (22), (23), (24), (25)": "equations of motion, on the manifold",
        "(26), (27)": "generalised forces to tendon forces, and back",
        "(28)": "tendon forces shifted until none is negative",
    },
    "johnston": {
        "(1), (2), (3)": "frames of the backbone by its curvature",
        "(4), (5)": "curvature by Chebyshev polynomials and modal coefficients",
        "(6)": "displacements of strings and tendons are linear in the coefficients",
        "(7), (8), (9)": "twist of a cross-section, and its Jacobian",
        "(10), (11)": "wire of a capstan; Jacobian of the capstans",
        "(12), (13), (14), (15), (16)": "kinetic energy; mass matrix of the backbone",
        "(17), (18), (19), (20)": "disks with their own centres of mass and tensors",
        "(21), (22), (23), (24), (25)": "inertia of motors, gears and capstans; the whole mass matrix",
        "(26), (27), (28), (29), (30), (31)": "potential energy: bending and gravity",
        "(32), (33), (34), (35), (36)": "tension along a strand under Coulomb friction in the disks' holes",
        "(37), (38)": "friction as capstan torque, and as generalised force",
        "(39), (40), (41), (42)": "Lagrangian, forces, equations of motion",
        "(43), (44), (45), (46), (47)": "generalised momentum and its rate",
        "(48), (49), (50), (51)": "residual of the momentum observer, sampled",
        "(52), (53), (54), (55), (56), (57)": "what the residual follows, and with which lag",
        "(58), (59), (60), (61)": "contact wrench from the residual: minimum norm under constraints",
        "(62), (63), (64)": "change of the residual by errors of the state",
        "(65), (66), (67), (68), (69)": "derivatives of the residual by the state",
        "(70)": "joint-force deviation, the baseline",
        "(71)": "chirp that excites a segment for its calibration",
        "(72)": "calibration of stiffness and friction from a recorded chirp",
        "(73)": "range of the curvature along a segment, how far it is from an arc",
        "(74), (75)": "two segments: what the distal one does to the proximal one",
    },
    "rucker": {
        "(1), (2), (3)": "frames and balance of a Cosserat rod",
        "(4)": "constitutive law",
        "(5), (6), (7)": "rod equations with loads, those of the tendons among them",
        "(8), (9)": "path of a tendon in the cross-section and in space",
        "(10), (11), (12), (13)": "load of a tendon along the rod",
        "(14), (15), (16), (17)": "coupled model: tendon loads contain the strains' rates, and are solved for them",
        "(18), (19), (20)": "a tendon's end: point force and moment",
        "(21), (22), (23), (24), (25), (26), (27)": "dynamics",
        "(28)": "polynomial routing of tendon 6",
    },
    "ha": {
        "(1), (2), (3), (4), (5), (6), (7), (8)": "SE(2): poses, twists, wrenches, adjoints and their change",
        "(9)": "pose of a link by the contact's arc length",
        "(10), (11)": "balance of forces and moments of a link",
        "(12), (13)": "directions of the tendons between links",
        "(14), (15), (16)": "Newton's method",
        "(17), (18), (19), (20)": "linearised equations of all links",
        "(21), (22), (23), (24), (25), (26), (27)": "one 3 x 3 inverse a link: the recursion from base to tip",
        "(28)": "tendon lengths",
        "(29), (36), (37)": "displacement actuation as least squares, and its gradient step",
        "(30), (31), (32), (33), (34), (35)": "Jacobian of the tendon lengths by the tensions",
        "(40), (41), (44), (47), (50), (51)": "adjoints, written out",
        "(52), (53)": "blocks of the linear system, written out",
        "(54), (55), (56), (57), (58), (59), (60), (61), (62), (63)": "external loads, and their change with the pose",
    },
    "wang": {
        "(1), (2), (3), (4), (5), (6)": "moments of the backbones on both subsegments, and their lengths",
        "(7), (8), (9), (10)": "balance of moments with and without the modulation backbone",
        "(11), (12), (13), (14), (15), (16)": "stiffnesses, and the solution for the two angles",
        "(17), (18), (19)": "moment error lambda, and the solution with it",
        "(20), (21), (22), (23)": "variables of the two subsegments; the equilibrium as a mapping",
        "(24), (25), (26), (27), (28), (29)": "pose of the end disk",
        "(30), (31), (32), (33), (34)": "differential of the pose",
        "(35), (36), (37), (38), (39), (40), (41)": "derivatives of the equilibrium",
        "(53), (54), (55)": "macro, micro and identification Jacobian together",
        "(56), (57), (58), (59), (60)": "joint displacements, and the macro Jacobian J_M",
        "(61)": "micro Jacobian J_mu by the insertion",
        "(62)": "identification Jacobian J_k",
        "(63), (64), (65), (66), (67), (68), (69), (70), (71)": "twists of the two subsegments and their composition",
        "(72), (73), (74), (75), (76), (77), (78)": "errors of pose, and the objective of the calibration",
        "(79), (80), (81), (82), (83)": "Algorithm 1: steps of the calibration",
    },
}
"""What the equations say, by their numbers."""


def page(text: str, paper: str, numbers: Path, images: Path) -> str:
    """A page of docs/papers with its generated parts written again.

    Parameters
    ----------
    text : the page as it is, with the parts between ``<!-- name: begin -->`` and ``<!-- name: end -->``
    paper : its short name
    numbers : folder of the experiments' numbers
    images : folder of their pictures

    Raises
    ------
    ParameterError : a page without the places of its parts
    """
    parts = {
        "reference": [reference(paper)],
        "equations": equations_table(paper, EQUATIONS[paper]),
        "numbers": sections(paper, numbers, images),
    }
    return filled(text, f"docs/papers/{paper}.md", parts)
