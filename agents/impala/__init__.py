"""IMPALA: `Config` and `make` are all that a program needs."""

from agents.impala.agent import make as make
from agents.impala.config import Config as Config
