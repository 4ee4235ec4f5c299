"""What a process is doing right now: the stack of every thread and of every task, as text."""

import asyncio
import sys
import threading
import traceback
from typing import Final

#: A server may have tens of thousands of tasks; only this many are logged.
TASKS_MAX: Final = 1000


def stacks() -> str:
    """Threads first, then the tasks of the running event loop by name."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f"thread {names.get(number, number)}:\n{''.join(traceback.format_stack(frame))}"
        for number, frame in sys._current_frames().items()
    ]
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    for task in tasks[:TASKS_MAX]:
        lines = [
            f"  {frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}\n"
            for frame in task.get_stack()
        ]
        parts.append(f"task {task.get_name()}:\n{''.join(lines)}")
    if len(tasks) > TASKS_MAX:
        parts.append(f"and {len(tasks) - TASKS_MAX} tasks more\n")
    return "".join(parts)
