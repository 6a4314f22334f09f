"""The planar biped of :func:`manifoldgp.datasets.simulate_walker` and the ground it walks on, as a MuJoCo model (MJCF).

The trunk slides along x and z and does not pitch. Each leg has a driven hip, a passive knee with a mechanical stop at
+5 degrees of overextension, and a spring along the shank that ends in a spherical foot. Only feet touch the ground.
Hinges turn about -y, so that a positive angle swings the leg forward (towards +x) and a bent knee is negative.
"""

from __future__ import annotations

from collections.abc import Sequence

BUMP_RADIUS = 0.02

_HEAD = """
<mujoco model="planar walker">
  <compiler angle="degree" autolimits="true"/>
  <option timestep="0.0005" integrator="implicitfast" cone="elliptic" impratio="5" iterations="50" tolerance="1e-10"/>
  <default>
    <geom contype="0" conaffinity="0" condim="3" friction="0.6 0.005 0.0001" solref="0.006 1" solimp="0.9 0.98 0.001"/>
    <default class="ground"><geom conaffinity="1"/></default>
    <default class="foot"><geom type="sphere" size="0.02" mass="0.07" contype="1"/></default>
    <default class="hip">
      <joint axis="0 -1 0" range="-60 60" damping="0.05" frictionloss="0.05" armature="0.01"/>
      <position kp="12" kv="0.7" forcerange="-4 4"/>
    </default>
    <default class="knee">
      <joint axis="0 -1 0" range="-110 5" stiffness="0.2" springref="-5" damping="0.003" frictionloss="0.005"
             armature="0.0002" solreflimit="0.006 0.55" solimplimit="0.95 0.99 0.001"/>
    </default>
    <default class="leg_spring"><joint type="slide" axis="0 0 1" stiffness="3500" damping="40" range="-0.001 0.03"/></default>
  </default>
"""

_LEG = """
      <body name="{side}_thigh" pos="0 {y} 0">
        <joint name="{side}_hip" class="hip"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.18" size="0.012" mass="0.22"/>
        <body name="{side}_shank" pos="0 0 -0.18">
          <joint name="{side}_knee" class="knee"/>
          <geom type="capsule" fromto="0 0 0 0 0 -0.108" size="0.009" mass="0.17"/>
          <body name="{side}_foot" pos="0 0 -0.18">
            <joint name="{side}_spring" class="leg_spring"/>
            <geom name="{side}_foot" class="foot"/>
            <site name="{side}_sole" type="sphere" size="0.026"/>
          </body>
        </body>
      </body>"""

_TAIL = """
  <actuator>
    <position name="right_hip" class="hip" joint="right_hip"/>
    <position name="left_hip" class="hip" joint="left_hip"/>
  </actuator>
  <sensor>
    <jointpos joint="right_hip"/>
    <jointpos joint="left_hip"/>
    <jointpos joint="right_knee"/>
    <jointpos joint="left_knee"/>
    <touch site="right_sole"/>
    <touch site="left_sole"/>
    <framepos objtype="xbody" objname="trunk"/>
  </sensor>
</mujoco>
"""


def walker_xml(bumps: Sequence[tuple[float, float]]) -> str:
    """The model as MJCF text; its sensors are the 6 channels of the data set (radians, newtons) and the hips' position (x, y, z).

    bumps: (place along x, height above the floor) of each bump, in metres; a bump is a cylinder lying across the path.
    """
    ground = ['    <geom class="ground" type="plane" size="0 0 1"/>']
    ground += [
        f'    <geom class="ground" type="capsule" size="{BUMP_RADIUS}" fromto="{x!r} -0.15 {height - BUMP_RADIUS!r} '
        f'{x!r} 0.15 {height - BUMP_RADIUS!r}"/>'
        for x, height in bumps
    ]
    trunk = (
        '    <body name="trunk" pos="0 0 0.385">\n'
        '      <joint name="x" type="slide" axis="1 0 0" damping="0.7"/>\n'
        '      <joint name="z" type="slide" axis="0 0 1" damping="10"/>\n'
        '      <geom type="box" size="0.03 0.06 0.06" pos="0 0 0.06" mass="1.4"/>'
    )
    legs = _LEG.format(side="right", y=-0.05) + _LEG.format(side="left", y=0.05)
    return _HEAD + "  <worldbody>\n" + "\n".join(ground) + "\n" + trunk + legs + "\n    </body>\n  </worldbody>" + _TAIL
