"""Adds jobs to the queue of folder-runner, and reads their state and result.

It needs Python 3.6 and nothing else, and must run as the user of the runner: nobody else may read its log. It is one
file, to be loaded from the package or copied beside your program.

    import sys
    sys.path.append("/home/me/site/node_modules/folder-runner/clients")
    from jobs import Jobs

    with Jobs("/home/me/site") as jobs:
        number = jobs.add("mail/welcome", {"to": address}, unique_key="welcome:7", retries=3)
        print(jobs.get(number)["state"])
"""

import json
import os
import sqlite3
from datetime import datetime, timedelta, timezone
from urllib.parse import quote

# What the runner writes into the file of a log that it has moved away.
_MOVED = 0x666F6D76
# The number of a new job where SQLite would take that of a job that was deleted as the newest one; else null.
_NUMBER = """(SELECT seq + 1 FROM sqlite_sequence
    WHERE name = 'jobs' AND seq >= (SELECT COALESCE(MAX(id), 0) FROM jobs))"""
_START = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Jobs:
    """The queue of the root that holds jobs/."""

    def __init__(self, root):
        path = os.path.join(os.path.abspath(root), ".runner", "activity.db")
        if not os.path.isfile(path):
            raise FileNotFoundError(
                "There is no activity log at %s: call `npx folder-runner init` in %s first." % (path, root)
            )
        self._path = path
        # Without creating it, so that a missing log is an error instead of an empty database.
        self._log = sqlite3.connect(
            "file:%s?mode=rw" % quote(path), uri=True, timeout=15, isolation_level=None
        )
        self._log.row_factory = sqlite3.Row

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._log.close()

    def add(
        self,
        name,
        data=None,
        *,
        priority=None,
        run_at=None,
        retries=None,
        retry_delay=None,
        unique_key=None,
        group=None,
        repeat=None
    ):
        """Adds a job and returns its number.

        If an unfinished job has the same unique key, none is added, and the number is the one of that job.
        `priority`: 500, higher ones first. `run_at`: a datetime with a time zone. `retry_delay`: "5m". `group`: its
        jobs run one at a time. `repeat`: "daily at 10:00". Raises ValueError for a value that no job can have,
        and RuntimeError after a move of the log to a database server.
        """
        if retry_delay is not None and retries is None:
            raise ValueError("retry_delay needs retries beside it.")
        retry = None if retries is None else " ".join(str(part) for part in (retries, retry_delay) if part is not None)
        columns = {
            "name": name,
            "data": json.dumps({} if data is None else data, ensure_ascii=False, allow_nan=False),
            "priority": priority,
            "run_at": None if run_at is None else _milliseconds(run_at),
            "retry": retry,
            "unique_key": unique_key,
            "concurrency_key": group,
            "repeat": repeat,
        }
        row = {column: value for column, value in columns.items() if value is not None}
        insert = "INSERT INTO jobs (id, %s) VALUES (%s, %s) ON CONFLICT DO NOTHING" % (
            ", ".join(row),
            _NUMBER,
            ", ".join("?" for _ in row),
        )
        # Together: between the two statements the job of that key could end.
        self._log.execute("BEGIN IMMEDIATE")
        try:
            self._demand_its_place()
            added = self._log.execute(insert, tuple(row.values()))
            number = added.lastrowid if added.rowcount > 0 else self._number_of(unique_key)
            self._log.execute("COMMIT")
            return number
        except sqlite3.IntegrityError as error:
            self._log.execute("ROLLBACK")
            reason = str(error).replace("CHECK constraint failed: ", "")
            raise ValueError("%s was not added: %s." % (name, reason)) from error
        except BaseException:
            if self._log.in_transaction:
                self._log.execute("ROLLBACK")
            raise

    def get(self, number):
        """A job, as a dict; None: there is no job with this number, or it was pruned.

        Raises RuntimeError after a move of the log to a database server. Keys: id, name, state ("queued", "claimed", "running", "retrying", "finished", "failed", "paused",
        "cancelled"), data, result, reason, attempts; run_at, created_at and finished_at as datetime or None.
        """
        self._demand_its_place()
        row = self._log.execute(
            "SELECT id, name, state, data, result, reason, attempts, run_at, created_at, finished_at"
            " FROM jobs WHERE id = ? AND tier IS NULL",
            (number,),
        ).fetchone()
        if row is None:
            return None
        job = dict(row)
        job["data"] = json.loads(job["data"])
        job["result"] = None if job["result"] is None else json.loads(job["result"])
        for key in ("run_at", "created_at", "finished_at"):
            job[key] = None if job[key] is None else _START + timedelta(milliseconds=job[key])
        return job

    def _demand_its_place(self):
        if self._log.execute("PRAGMA application_id").fetchone()[0] != _MOVED:
            return
        place = self._log.execute("SELECT place FROM moved").fetchone()[0]
        raise RuntimeError(
            "The log %s was moved to %s: jobs added here would never run. Add them there by plain SQL, or with"
            " `npx folder-runner add`." % (self._path, place)
        )

    def _number_of(self, key):
        query = "SELECT id FROM jobs WHERE unique_key = ? AND finished_at IS NULL"
        return self._log.execute(query, (key,)).fetchone()[0]


def _milliseconds(at):
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise ValueError("run_at must be a datetime with a time zone, such as datetime.now(timezone.utc).")
    return (at - _START) // timedelta(milliseconds=1)
