-- agentd as Neovim's built-in LSP client library sees it (vim.lsp.rpc). Started by ./run, which sets AGENTD and
-- AGENTD_TEST_CWD.

local function check(condition, what)
  if not condition then error(what, 2) end
end

local events, exited = {}, nil
local client = vim.lsp.rpc.start(vim.env.AGENTD, { 'stdio' }, {
  notification = function(method, params)
    if method == 'event' then table.insert(events, params) end
  end,
  on_error = function(code, err) error(('rpc error %s: %s'):format(code, vim.inspect(err))) end,
  on_exit = function(code) exited = code end,
})

-- Sends a request and waits for its answer.
local function call(method, params)
  local done, failure, result = false, nil, nil
  check(client.request(method, params, function(err, res) done, failure, result = true, err, res end), 'cannot send')
  check(vim.wait(20000, function() return done end, 5), method .. ' is not answered')
  return result, failure
end

local function run()
  local hello = call('initialize', { clientInfo = { name = 'neovim', version = '1' } })
  check(hello.serverInfo.name == 'agentd', 'who answers?')
  local made = call('new_session', { cwd = vim.env.AGENTD_TEST_CWD, model = 'demo' })
  call('prompt', { message = 'what is here? é😀' })
  local function settled()
    local last = events[#events]
    return last and last.event.type == 'agent_settled'
  end
  check(vim.wait(20000, settled, 5), 'the run does not settle')
  for index, params in ipairs(events) do
    check(params.seq == made.seq + index, 'events are not contiguous')
  end
  local _, failure = call('get_sate', vim.empty_dict())
  check(failure and failure.code == -32601, 'an unknown method is not refused')
  local answered = 0
  for index = 1, 200 do
    local sent = client.request('get_state', { sessionId = made.sessionId }, function(err, state)
      check(not err and state.sessionId == made.sessionId, 'answer ' .. index)
      answered = answered + 1
    end)
    check(sent, 'cannot send ' .. index)
  end
  check(vim.wait(20000, function() return answered == 200 end, 5), 'only ' .. answered .. ' of 200 answered')
  local text = ('é😀'):rep(200000)
  call('set_session_name', { name = 'from neovim' })
  local refused
  _, refused = call('set_session_name', { name = text })
  check(refused and refused.code == -32602, 'a long message is not understood')
end

local ok, why = xpcall(run, debug.traceback)
if client.terminate then client.terminate() else client.handle:kill(15) end
vim.wait(5000, function() return exited ~= nil end, 5)
if not ok then
  io.stderr:write(why .. '\n')
  vim.cmd('cquit 1')
end
io.stdout:write('ok: ' .. #events .. ' events, 200 requests side by side\n')
vim.cmd('quitall!')
