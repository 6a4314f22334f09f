"""The experiments of "Manifold Gaussian Processes for Regression", run with the public names of manifoldgp alone.

``python -m paper reproduce --quick`` runs them and writes a report. From the ground up: ``experiment`` and ``methods`` say what an
experiment is made of; ``functions`` and ``walking`` hold the experiments, ``recordings`` and ``walker_simulation`` the data of the walks;
``plan`` says what to run and ``run`` runs it; ``tables``, ``checks`` and ``outcome`` hold the numbers against the paper's; ``charts``,
``figures``, ``page_parts`` and ``page`` show them.
"""
