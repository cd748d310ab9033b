# SPDX-License-Identifier: Apache-2.0
"""The soft column of soft_column.py by other simulators, from PyPI in an environment of their own.

    python3 -m venv peers && peers/bin/pip install pyelastica==1.0.0 soromox==0.2.1
    peers/bin/python benchmarks/peers_column.py [--data FOLDER]

Needs nothing of this package. With the data of section IVa of SoRoMoX's benchmark (github.com/tud-phi/soromox,
paper_results) it prints how far SoRoMoX is from SoRoSim's curve. PyElastica has no tendons: a force at the tip stands
for them, as large and in the tendons' plane, so that its time compares and its motion does not.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from scipy.io import loadmat

DURATION_S, STEP_S, SAMPLE_S = 3.0, 1e-4, 0.01
LENGTH_M, RADIUS_M, DENSITY, YOUNG_PA, VISCOSITY_PAS = 0.6, 0.03, 1000.0, 1e6, 1e4
SHEAR_PA = YOUNG_PA / 3
GRAVITY = (0.0, 0.0, -9.81)


def pyelastica(elements: int = 100) -> tuple[np.ndarray, float]:
    """The tip at the end, (3,), m, and the processor time, s."""
    import elastica as ea  # noqa: PLC0415 - either may be missing

    class Column(ea.BaseSystemCollection, ea.Constraints, ea.Forcing, ea.Damping):
        pass

    column = Column()
    rod = ea.CosseratRod.straight_rod(
        elements,
        np.zeros(3),
        np.array([0.0, 0.0, 1.0]),
        np.array([0.0, 1.0, 0.0]),
        LENGTH_M,
        RADIUS_M,
        DENSITY,
        youngs_modulus=YOUNG_PA,
        shear_modulus=SHEAR_PA,
    )
    column.append(rod)
    column.constrain(rod).using(ea.OneEndFixedBC, constrained_position_idx=(0,), constrained_director_idx=(0,))
    column.add_forcing_to(rod).using(ea.GravityForces, acc_gravity=np.array(GRAVITY))
    column.add_forcing_to(rod).using(ea.EndpointForces, np.zeros(3), np.array([-0.1, 0.1, 0.0]), ramp_up_time=STEP_S)
    column.dampen(rod).using(ea.AnalyticalLinearDamper, damping_constant=0.0048, time_step=STEP_S)
    column.finalize()
    ea.integrate(ea.PositionVerlet(), column, STEP_S, 1, progress_bar=False)  # what is compiled is not counted
    begin_s = time.process_time()
    ea.integrate(ea.PositionVerlet(), column, DURATION_S, round(DURATION_S / STEP_S), progress_bar=False)
    return rod.position_collection[:, -1].copy(), time.process_time() - begin_s


def soromox() -> tuple[np.ndarray, float]:
    """Times and places of the tip, (k, 4), s and m, and the processor time, s."""
    import jax  # noqa: PLC0415
    import jax.numpy as jnp  # noqa: PLC0415
    from soromox.actuation import ThreadlikeActuator, ThreadlikeRouting  # noqa: PLC0415
    from soromox.systems import GVS, GVSSegment, JointSpec, LinkSpec, StrainBasisSpec, SystemState  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)
    link = LinkSpec.circular(E=YOUNG_PA, nu=0.5, rho=DENSITY, eta=VISCOSITY_PAS, L=LENGTH_M / 2, r=RADIUS_M)
    linear = [1, 1, 1, 1, 0, 0]
    basis = StrainBasisSpec(type="legendre", active=linear, orders=linear)
    segment = GVSSegment(link=link, joint=JointSpec(type="fixed"), basis=basis, num_gauss_points=5)
    routing = ThreadlikeRouting.linear(
        intercept=jnp.array([[0.0, 0.0, 0.02], [0.0, 0.02, 0.0]]), start_segment_index=0, end_segment_index=(1, 1)
    )
    robot = GVS.from_segments(
        [segment, segment],
        gravity=jnp.asarray(GRAVITY),
        base_pose=jnp.array([np.sqrt(0.5), 0.0, -np.sqrt(0.5), 0.0, 0.0, 0.0, 0.0]),  # x of the rod upwards
        actuators=ThreadlikeActuator.tendons(routing),
        scale_rotational_basis_by_length=True,
    )
    size = int(np.sum(robot.dofs_per_segment))
    rest = SystemState(t=0.0, y=jnp.zeros(2 * size))
    how = {"u": jnp.ones(2), "solver_dt": STEP_S, "save_dt": SAMPLE_S, "max_steps": None}
    begin_s = time.process_time()
    motion = robot.rollout_to(initial_state=rest, t1=DURATION_S, **how)
    states = np.asarray(motion.y)
    used_s = time.process_time() - begin_s  # with what is compiled: a rollout of another length compiles anew
    place = jax.jit(lambda q: robot.forward_kinematics(q, LENGTH_M)[:3, 3])
    tips = np.array([place(state[:size]) for state in states])
    return np.column_stack([np.asarray(motion.t), tips]), used_s


def main(data: Path | None) -> None:
    """Print times, and distances from SoRoSim's curve."""
    for run in (pyelastica, soromox):
        try:
            found, used_s = run()
        except ImportError as error:
            print(f"{run.__name__}: {error}")
            continue
        text = f"{run.__name__}: {DURATION_S / used_s:.3g} simulated seconds in a second of processor time"
        if run is soromox and data is not None:
            judge = loadmat(data / "end_effector_position_tendon_driven_gvs_sorosim.mat")
            times, curve = judge["t"].ravel(), judge["Pos_EE_all"].T
            at = np.column_stack([np.interp(found[:, 0], times, curve[:, k]) for k in range(3)])
            text += f"; from SoRoSim at most {1e3 * np.linalg.norm(found[:, 1:] - at, axis=1).max():.2f} mm"
        print(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder secIVa_benchmarking_sequential_cpu/data of SoRoMoX")
    main(parser.parse_args().data)
