"""An Airflow DAG: each hour what is new of a topic goes into an archive, then the newest row of each key becomes a table.

Both jobs can be tried again at any moment: `archive` goes on where its last run ended, each offset once, and `latest` replaces
its table as a whole. So no task needs a sensor, a lock, or the hour that it runs for; `max_active_runs` keeps two runs from one
archive.

`tidelog` is the command of an environment of its own, on every worker: `python -m venv /opt/tidelog` and
`/opt/tidelog/bin/pip install 'tidelog[pipeline]'`; Airflow's packages and Spark's need not agree then. Values come by the
environment: a name is never part of a shell's program.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

VALUES = {
    "TIDELOG": "{{ params.tidelog }}",
    "BROKERS": "{{ params.brokers }}",
    "TOPIC": "{{ params.topic }}",
    "ARCHIVE": "{{ params.archive }}",
    "TABLE": "{{ params.table }}",
}
SOURCE = '--bootstrap-server "$BROKERS" --topic "$TOPIC"'

with DAG(
    "tidelog_orders",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,  # a run takes all that is new: one that was missed is made up for by the next
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=2), "execution_timeout": timedelta(hours=1)},
    params={
        "tidelog": "/opt/tidelog/bin/tidelog",
        "brokers": "localhost:9092",
        "topic": "orders",
        "archive": "/archive/orders",
        "table": "/tables/orders",
    },
) as dag:
    archive = BashOperator(
        task_id="archive",
        bash_command=f'"$TIDELOG" pipeline archive {SOURCE} --to "$ARCHIVE" --json',
        env=VALUES,
        append_env=True,
    )
    latest = BashOperator(
        task_id="latest",
        bash_command=f'"$TIDELOG" pipeline latest {SOURCE} --to "$TABLE" --json',
        env=VALUES,
        append_env=True,
    )
    archive >> latest
