"""Run by Airflow's own Python: loads the DAGs of a folder as a scheduler does, says what it found, and runs one.

Arguments: the DAG's id, its parameters as JSON. AIRFLOW_HOME is an empty directory, AIRFLOW__CORE__DAGS_FOLDER the folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

for words in (["db", "migrate"], ["dags", "reserialize"]):
    subprocess.run([sys.executable, "-m", "airflow", *words], check=True, stdout=subprocess.DEVNULL)

from airflow.dag_processing.dagbag import DagBag  # noqa: E402  # it needs the tables

name, params = sys.argv[1:]
bag = DagBag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
dag = bag.dags.get(name)
found = {
    "errors": bag.import_errors,
    "dags": sorted(bag.dags),
    "order": []
    if dag is None
    else [[task.task_id, sorted(task.downstream_task_ids)] for task in dag.topological_sort()],
}
if dag is not None:
    found["state"] = str(dag.test(run_conf=json.loads(params)).state)
print(json.dumps(found))
