"""What the public Python client must see of an emulator: run by pypi.test.mjs, which says where that is."""

import os
import unittest

from createos import (
    APIError,
    Client,
    CommandError,
    CreateSandboxRequest,
    ExecStreamEventType,
    ManagedProcessConnectEventType,
    ManagedProcessConnectOptions,
    ManagedProcessCreateRequest,
    ManagedProcessDeleteOptions,
    ManagedProcessSignal,
    ManagedProcessState,
    ManagedProcessStream,
    ManagedProcessWaitOptions,
    ManagedProcessWaitScope,
    RunCommandRequest,
    SandboxStatus,
)

TREE = ManagedProcessWaitOptions(scope=ManagedProcessWaitScope.TREE, wait_timeout=60)


class Emulator(unittest.TestCase):
    def setUp(self):
        self.client = Client()
        self.addCleanup(self.client.close)
        self.sandbox = self.client.create_sandbox(CreateSandboxRequest(shape="s-1vcpu-1gb"))
        self.addCleanup(self.destroy)
        self.sandbox.wait_until_running()

    def destroy(self):
        self.sandbox.destroy()
        self.sandbox.wait_until_destroyed()

    def start(self, script):
        return self.sandbox.processes.create(ManagedProcessCreateRequest(command="bash", arguments=["-c", script]))

    def refused(self, status, call, *arguments):
        with self.assertRaises(APIError) as raised:
            call(*arguments)
        self.assertEqual(raised.exception.status_code, status)

    def test_lifecycle(self):
        self.assertIn(self.sandbox.id, [sandbox.id for sandbox in self.client.list_sandboxes()])
        self.sandbox.pause()
        self.sandbox.wait_until_paused()
        self.refused(409, self.start, "true")
        self.sandbox.resume()
        self.sandbox.wait_until_running()
        self.assertEqual(self.client.get_sandbox(self.sandbox.id).status, SandboxStatus.RUNNING)
        self.refused(404, self.client.get_sandbox, "sb-unknown")
        with Client(api_key="another", base_url=os.environ["CREATEOS_SANDBOX_BASE_URL"]) as stranger:
            self.refused(401, stranger.get_sandbox, self.sandbox.id)

    def test_commands(self):
        request = RunCommandRequest(command="bash", arguments=["-c", "cat; echo err >&2; exit 7"], standard_input="told")
        result = self.sandbox.run_command(request).result
        self.assertEqual((result.exit_code, result.standard_output, result.standard_error), (7, "told", "err\n"))
        with self.assertRaises(CommandError):
            self.sandbox.shell("exit 3")

        told = {ExecStreamEventType.STDOUT: "", ExecStreamEventType.STDERR: ""}
        with self.sandbox.stream_command(request) as stream:
            for event in stream:
                if event.type in told:
                    told[event.type] += event.data
        self.assertEqual(list(told.values()), ["told", "err\n"])
        self.assertEqual((event.type, event.exit_code), (ExecStreamEventType.EXIT, 7))

    def test_files(self):
        contents = os.urandom(3 << 20)
        path = "/paperclip-workspace/a folder/ü+&?.bin"
        self.sandbox.files.upload(path, contents)
        with self.sandbox.files.download(path) as download:
            self.assertEqual(download.read(), contents)
        self.refused(404, self.sandbox.files.download, "/paperclip-workspace/none")

    def test_process_output_is_replayed_from_any_frame(self):
        process = self.start("read name; echo hello $name; read; echo err >&2; exit 7")
        self.assertEqual((process.state, process.leader_exited), (ManagedProcessState.RUNNING, False))
        self.assertEqual(self.sandbox.processes.input(process.process_id, "world\n"), 1)
        with self.sandbox.processes.connect(process.process_id) as stream:
            first = next(event for event in stream if event.type is ManagedProcessConnectEventType.DATA)
            self.assertEqual((first.sequence, first.stream, first.data), (1, ManagedProcessStream.STDOUT, b"hello world\n"))
        self.sandbox.processes.close_standard_input(process.process_id)
        self.refused(409, self.sandbox.processes.close_standard_input, process.process_id)

        ended = self.sandbox.processes.wait(process.process_id, TREE)
        self.assertEqual((ended.state, ended.exit_code, ended.tree_exited), (ManagedProcessState.EXITED, 7, True))
        self.assertEqual((ended.output.oldest_sequence, ended.output.newest_sequence, ended.output.bytes), (1, 2, 16))
        options = ManagedProcessConnectOptions(after_sequence=1)
        with self.sandbox.processes.connect(process.process_id, options) as stream:
            rest = [event for event in stream if event.type is not ManagedProcessConnectEventType.HEARTBEAT]
        self.assertEqual([(event.type, event.sequence, event.data, event.exit_code) for event in rest], [
            (ManagedProcessConnectEventType.DATA, 2, b"err\n", None),
            (ManagedProcessConnectEventType.EXIT, 0, b"", 7),
        ])

    def test_processes_are_signalled_and_waited_for(self):
        process = self.start("sleep 1000")
        waiting = ManagedProcessWaitOptions(scope=ManagedProcessWaitScope.LEADER, wait_timeout=0.05)
        self.refused(408, self.sandbox.processes.wait, process.process_id, waiting)
        self.sandbox.processes.signal(process.process_id, ManagedProcessSignal.TERMINATE)
        ended = self.sandbox.processes.wait(process.process_id, TREE)
        self.assertEqual((ended.exit_code, ended.signal), (None, "SIGTERM"))
        self.assertEqual(self.sandbox.processes.get(process.process_id).state, ManagedProcessState.EXITED)

    def test_process_trees_are_terminated(self):
        process = self.start("trap '' TERM; setsid sleep 1000 & sleep 1000")
        self.assertEqual([one.process_id for one in self.sandbox.processes.list()], [process.process_id])
        ended = self.sandbox.processes.delete(process.process_id, ManagedProcessDeleteOptions(grace_period=0.2))
        self.assertTrue(ended.tree_exited)
        self.refused(404, self.sandbox.processes.get, process.process_id)
        self.assertEqual(self.sandbox.processes.list(), [])
