"""How agent frameworks behave when something breaks: `make durability`.

`work` is what an adapter gets and gives, `adapters` has one module for each framework, and `rows` the histories with
their judges. Each adapter runs in processes of its own (`host`), with a scripted model in this one (`model`).
"""
