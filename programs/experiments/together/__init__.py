"""A program's folder: Python finds the modules beside a program first, so that none here may have a library's name."""
