"""Boonta: a Reverb-backed actor/learner service cluster in Acme style.

`boonta.agents` learn and act, `boonta.envs` are the environments, `boonta.nodes` are the parts of a program,
`boonta.programs` are whole programs, and `boonta.deploy` runs them on clusters.
"""

from boonta.programs.wiring.supervision import interrupts, output

output.open_closed()  # Here, before a library opens anything.
interrupts.install()  # Here, since imports take seconds, in which a user may press Ctrl-C.
