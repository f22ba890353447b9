"""Boonta: a Reverb-backed actor/learner service cluster in Acme style.

`boonta.agents` learn and act, `boonta.envs` are what they act in, `boonta.nodes` are what a program is made of,
`boonta.programs` are whole programs, and `boonta.deploy` puts them on clusters.
"""
