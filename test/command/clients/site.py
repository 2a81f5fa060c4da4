"""python3 site.py <clients> <add|get|refuse> [number…]: what a site does with the file for Python."""

import json
import sys
from datetime import datetime, timezone

sys.path.append(sys.argv[1])
from jobs import Jobs

what, numbers = sys.argv[2], sys.argv[3:]


def tell(value):
    print(json.dumps(value, ensure_ascii=False))


def refuse(**options):
    try:
        tell(jobs.add("mail/welcome", {}, **options))
    except ValueError as error:
        tell(str(error))


with Jobs(".") as jobs:
    if what == "add":
        tell(jobs.add("mail/welcome", {"to": "Zoë"}, unique_key="welcome:7", retries=2, retry_delay="5m"))
        tell(jobs.add("mail/welcome", {"to": "again"}, unique_key="welcome:7"))
        tell(jobs.add("mail/welcome", priority=700))
        later = datetime(2030, 1, 2, 3, 4, 5, 678000, tzinfo=timezone.utc)
        tell(jobs.add("mail/welcome", {"to": "later"}, run_at=later, group="g", repeat="daily at 10:00"))
    if what == "get":
        for number in numbers:
            job = jobs.get(int(number))
            for key in ("run_at", "created_at", "finished_at"):
                if job is not None and job[key] is not None:
                    job[key] = job[key].isoformat(timespec="milliseconds")
            tell(job)
    if what == "refuse":
        refuse(priority="high")
        refuse(retry_delay="5m")
        refuse(run_at="+5 minutes")
        tell(jobs.add("mail/welcome"))
