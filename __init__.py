"""Boonta: a Reverb-backed actor/learner service cluster in Acme style.

`boonta.agents` learn and act, `boonta.envs` are the environments, `boonta.nodes` are the parts of a program,
`boonta.programs` are whole programs, and `boonta.deploy` runs them on clusters.
"""
