-- Which region a request enters: asks the director over HTTP, keeps what it said of a route for `reuse_s`, and picks each
-- session from the answered shares. For HAProxy 2.6 and later with Lua 5.3.
--
-- Set in the global section, before lua-load:
--   setenv DIRECTOR_URL http://127.0.0.1:8080     setenv DIRECTOR_TOKEN …     setenv DIRECTOR_CLIENT_ZONE europe

local url = os.getenv("DIRECTOR_URL") or "http://127.0.0.1:8080"
local token = os.getenv("DIRECTOR_TOKEN") or ""
local client_zone = os.getenv("DIRECTOR_CLIENT_ZONE") or ""

local ASK_MS = 250          -- a decision takes a millisecond; whoever waits longer gets a fallback
local SILENT_S = 2          -- for so long nobody waits again for a director that was silent
local ROUTES_MAX = 10000
local REFUSED_MIN = 1e-4    -- shares are rounded to six digits

local answers = {}          -- route → {until_s, answer}
local answers_count = 0
local silent_until_s = 0

local function now_s()
  local t = core.now()
  return t.sec + t.usec / 1e6
end

-- A JSON reader for the director's answers: HAProxy brings none.
local function json(text)
  local at = 1
  local value
  local function skip() at = text:find("[^ \t\r\n]", at) or #text + 1 end
  local escapes = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }
  local function str()
    local out = {}
    at = at + 1
    while true do
      local stop = text:find('["\\]', at)
      if not stop then error("json: a string without end") end
      out[#out + 1] = text:sub(at, stop - 1)
      if text:sub(stop, stop) == '"' then at = stop + 1; return table.concat(out) end
      local c = text:sub(stop + 1, stop + 1)
      if c == "u" then
        out[#out + 1] = utf8.char(tonumber(text:sub(stop + 2, stop + 5), 16)); at = stop + 6
      else
        out[#out + 1] = escapes[c] or c; at = stop + 2
      end
    end
  end
  local function members(closing, with_names)
    local out = {}
    at = at + 1; skip()
    while text:sub(at, at) ~= closing do
      if with_names then
        local name = str(); skip(); at = at + 1
        out[name] = value()
      else
        out[#out + 1] = value()
      end
      skip()
      if text:sub(at, at) == "," then at = at + 1; skip() elseif text:sub(at, at) ~= closing then error("json: " .. at) end
    end
    at = at + 1
    return out
  end
  value = function()
    skip()
    local c = text:sub(at, at)
    if c == "{" then return members("}", true) end
    if c == "[" then return members("]", false) end
    if c == '"' then return str() end
    local word = text:match("^[%w%.%+%-]+", at)
    if not word then error("json: " .. at) end
    at = at + #word
    if word == "true" then return true elseif word == "false" then return false elseif word == "null" then return nil end
    return tonumber(word)
  end
  return value()
end

local function quoted(text)
  return '"' .. text:gsub('[%c"\\\127-\255]', function(c) return string.format("\\u%04x", c:byte()) end) .. '"'
end

-- 200 and its answer, another status and its Retry-After, or nil: nobody answered.
local function ask(fields)
  if now_s() < silent_until_s then return nil end
  local told = {}
  for _, field in ipairs(fields) do
    if field[2] ~= "" then told[#told + 1] = quoted(field[1]) .. ":" .. (field[3] or quoted(field[2])) end
  end
  local response = core.httpclient():post{
    url = url .. "/select-region",
    headers = { ["authorization"] = { "Bearer " .. token }, ["content-type"] = { "application/json" }, ["host"] = { "director" } },
    body = "{" .. table.concat(told, ",") .. "}",
    timeout = ASK_MS,
  }
  local status = response and response.status or 0
  if status == 0 or status == 500 or status == 502 or status == 504 then
    silent_until_s = now_s() + SILENT_S
    return nil
  end
  if status ~= 200 then
    local after = response.headers and response.headers["retry-after"]
    return status, nil, after and after[0] or ""
  end
  local fine, answer = pcall(json, response.body)
  if not fine then return nil end
  return 200, answer
end

-- Weighted rendezvous by the session: when shares change by x, about x of the sessions move.
local function rendezvous(txn, key, shares)
  local best, best_score = "", math.huge
  for _, one in ipairs(shares) do
    if one[2] > 0 then
      -- The high 52 bits, strictly inside (0, 1).
      local hash = txn.c:xxh64(key .. "\31" .. one[1], 0)
      local score = -math.log(((hash >> 12) + 0.5) / 4503599627370496.0) / one[2]
      if score < best_score then best, best_score = one[1], score end
    end
  end
  return best
end

local function pick(txn, answer, key)
  local first = answer.fallbacks[1]
  local own = { answer.region, first and first.region or "", answer.reason, answer.affinity.token }
  if answer.reason == "affinity" then return own end
  local shares, left = {}, 1
  for region, share in pairs(answer.shares) do shares[#shares + 1] = { region, share }; left = left - share end
  table.sort(shares, function(a, b) return a[1] < b[1] end)
  if left > REFUSED_MIN then shares[#shares + 1] = { "", left } end
  if #shares == 1 and shares[1][1] == answer.region then return own end
  local chosen = rendezvous(txn, key, shares)
  if chosen == answer.region then return own end
  if chosen == "" then return nil end
  return { chosen, answer.region, "share", "" }
end

local function var(txn, name) return txn:get_var("txn." .. name) or "" end

local function enter(txn, place, version)
  local pair = place[1]
  if place[2] ~= "" and place[2] ~= place[1] then pair = place[1] .. ":" .. place[2] end
  txn:set_var("txn.director_region", place[1])
  txn:set_var("txn.director_backend", "region:" .. pair)
  txn:set_var("txn.director_reason", place[3])
  txn:set_var("txn.director_token_answered", place[4])
  txn:set_var("txn.director_version", version)
end

-- `txn.director_fallback` is the row of the map that `director l7 fallbacks --format haproxy-map` wrote.
local function silent(txn)
  local names = {}
  for name in var(txn, "director_fallback"):gmatch("([^=,]+)=[^,]*") do names[#names + 1] = name end
  if #names == 0 then
    txn:set_var("txn.director_status", 503)
    return
  end
  enter(txn, { names[1], names[2] or "", "fallback", "" }, "")
end

core.register_action("director", { "http-req" }, function(txn)
  local affinity = var(txn, "director_affinity")
  local residency = {}
  for tag in var(txn, "director_residency"):gmatch("[^,]+") do residency[#residency + 1] = quoted(tag) end
  local fields = {
    { "tenant", var(txn, "director_tenant") }, { "model", var(txn, "director_model") },
    { "residency", var(txn, "director_residency"), "[" .. table.concat(residency, ",") .. "]" },
    { "client_zone", client_zone }, { "client_ip", client_zone == "" and txn.f:src() or "" },
    { "affinity", affinity }, { "session", affinity },
  }
  local parts = {}
  for i, field in ipairs(fields) do parts[i] = field[2] end
  local route = table.concat(parts, "\31")
  local kept = answers[route]
  local answer = kept and kept[1] > now_s() and kept[2]
  if not answer then
    local status, told, retry_after = ask(fields)
    if status == 200 then
      answer = told
      if not kept then
        if answers_count >= ROUTES_MAX then answers, answers_count = {}, 0 end
        answers_count = answers_count + 1
      end
      answers[route] = { now_s() + told.reuse_s, told }
    elseif status then
      answers[route] = nil
      txn:set_var("txn.director_status", status)
      txn:set_var("txn.director_retry_after", retry_after)
      return
    elseif kept then
      answer = kept[2]    -- the last word of a director that is silent
    else
      silent(txn)
      return
    end
  end
  local place = pick(txn, answer, var(txn, "director_session"))
  if place then
    enter(txn, place, answer.version)
  else
    txn:set_var("txn.director_status", 503)
    txn:set_var("txn.director_retry_after", "2")
  end
end, 0)
