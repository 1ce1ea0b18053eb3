// agentd as vscode-jsonrpc sees it, the library of VS Code's language clients: LSP headers over `agentd stdio` and over
// the socket. Started by ./run, which sets AGENTD, AGENTD_SOCKET and AGENTD_TEST_CWD.
"use strict";

const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
const { once } = require("node:events");
const net = require("node:net");
const { test } = require("node:test");
const rpc = require("vscode-jsonrpc/node");

const { AGENTD, AGENTD_SOCKET, AGENTD_TEST_CWD: cwd } = process.env;

/** A connection over two streams, and the events that came over it. */
function connect(input, output) {
  const connection = rpc.createMessageConnection(new rpc.StreamMessageReader(input), new rpc.StreamMessageWriter(output));
  const events = [];
  const waiting = [];
  connection.onNotification("event", (params) => {
    events.push(params);
    for (const look of [...waiting]) look();
  });
  /** Waits for an event of a type that comes after the first `seen` ones. */
  const until = (type, seen = 0) =>
    new Promise((resolve) => {
      const look = () => {
        const found = events.slice(seen).find((params) => params.event.type === type);
        if (!found) return;
        waiting.splice(waiting.indexOf(look), 1);
        resolve(found);
      };
      waiting.push(look);
      look();
    });
  connection.listen();
  const call = (method, params = {}) => connection.sendRequest(method, params);
  return { connection, events, until, call };
}

/** A client over `agentd stdio`; the daemon is started if none runs. */
function stdio(t) {
  const child = spawn(AGENTD, ["stdio"], { stdio: ["pipe", "pipe", "inherit"] });
  t.after(() => child.kill());
  return { ...connect(child.stdout, child.stdin), child };
}

async function socket(t) {
  const stream = net.connect(AGENTD_SOCKET);
  await once(stream, "connect");
  t.after(() => stream.destroy());
  return connect(stream, stream);
}

/** Asserts that a request fails with a code and a kind. */
async function fails(request, code, kind) {
  await assert.rejects(request, (error) => {
    assert.ok(error instanceof rpc.ResponseError, String(error));
    assert.deepEqual([error.code, error.data.kind], [code, kind]);
    return true;
  });
}

test("a session from the handshake to the end of its run", async (t) => {
  const client = stdio(t);
  const hello = await client.call("initialize", { clientInfo: { name: "vscode", version: "1" }, capabilities: {} });
  assert.equal(hello.serverInfo.name, "agentd");
  const { sessionId, epoch, seq } = await client.call("new_session", { cwd, model: "demo" });
  const prompt = await client.call("prompt", { message: "what is here? é😀" });
  assert.equal(prompt.disposition, "started");
  const settled = await client.until("agent_settled");
  assert.equal(settled.event.reason, "done");
  const run = [...client.events];
  run.forEach((params, index) => {
    assert.deepEqual([params.sessionId, params.seq], [sessionId, seq + 1 + index]);
  });
  const text = run
    .map(({ event }) => event.assistantMessageEvent)
    .filter((update) => update?.type === "text_delta")
    .map((update) => update.delta)
    .join("");
  assert.match(text, /what is here\? é😀/);
  await fails(client.call("get_sate"), -32601, "method_not_found");
  await fails(client.call("prompt", { message: 5 }), -32602, "invalid_params");

  // Another program's connection to the same session replays what it missed.
  const other = await socket(t);
  const attached = await other.call("attach", { sessionId, since: { epoch, seq } });
  assert.equal(attached.replay, "exact");
  await other.until("agent_settled");
  assert.deepEqual(other.events.slice(0, run.length), run);

  // The end of the input lets the front go.
  client.child.stdin.end();
  const [code] = await once(client.child, "exit");
  assert.equal(code, 0);
});

test("a token cancels a request that waits, and nothing else", async (t) => {
  const client = stdio(t);
  await client.call("new_session", { cwd, model: "demo", maxTurns: 1 });
  await client.call("prompt", { message: "look around" });
  const { event: question } = await client.until("approval_requested");
  const source = new rpc.CancellationTokenSource();
  const cancelled = client.connection.sendRequest("wait", {}, source.token);
  const waiting = client.call("wait");
  assert.equal((await client.call("get_state")).status, "asking");
  source.cancel();
  await fails(cancelled, -32013, "cancelled");
  const answer = { approvalId: question.approvalId, decision: "deny", message: "enough" };
  const other = await socket(t);
  await other.call("respond_approval", answer);
  await fails(client.call("respond_approval", answer), -32011, "already_resolved");
  assert.equal((await waiting).reason, "maxTurns");
});

test("requests side by side get their own answers", async (t) => {
  const client = stdio(t);
  const { sessionId } = await client.call("new_session", { cwd, model: "demo" });
  const calls = Array.from({ length: 200 }, (_, index) => {
    switch (index % 4) {
      case 0:
        return client.call("ping").then((answer) => assert.equal(typeof answer.time, "number"));
      case 1:
        return client.call("get_state").then((answer) => assert.equal(answer.sessionId, sessionId));
      case 2:
        return client.call("list_sessions", { limit: 1 }).then((answer) => assert.ok(Array.isArray(answer.sessions)));
      default:
        return fails(client.call("get_state", { sessionId: `none-${index}` }), -32001, "unknown_session");
    }
  });
  assert.equal((await Promise.all(calls)).length, 200);
});

test("long messages keep their length, both ways", async (t) => {
  const client = stdio(t);
  await client.call("new_session", { cwd, model: "demo" });
  const pad = "é😀\n".repeat(300_000);
  const pings = Array.from({ length: 4 }, () => client.call("ping", { pad }));
  const message = `count this\n${"ä😀".repeat(400_000)}`;
  await client.call("prompt", { message });
  await Promise.all(pings);
  await client.until("agent_settled");
  const { messages } = await client.call("get_messages");
  const user = messages.find(({ role }) => role === "user");
  assert.equal(user.content[0].text, message);
});
