"""Calls of the library and Ctrl-C, without a model."""
import signal
import subprocess
import sys
import unittest

# A call that ends some time after it was cancelled.
SLOW_TO_END = """
import sys, threading, time
from vesper._calls import interruptible
cancelled, ended = threading.Event(), threading.Event()
def work():
    print("begin", flush=True)
    cancelled.wait()
    time.sleep(0.5)
    ended.set()
try:
    interruptible(work, cancelled.set)
except KeyboardInterrupt:
    sys.exit(130 if ended.is_set() else "raised before the end of the call")
"""


class Calls(unittest.TestCase):
    def test_ctrl_c_cancels_a_call_and_is_raised_at_its_end(self):
        process = subprocess.Popen([sys.executable, "-c", SLOW_TO_END], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.assertEqual(process.stdout.readline(), "begin\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual((*process.communicate(timeout=60), process.returncode), ("", "", 130))


if __name__ == "__main__":
    unittest.main()
