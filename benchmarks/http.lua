-- Questions with sessions of their own, so that the pick is really made; built once, since the client must not be slow.
local requests = {}
local n = 0

function init(args)
  local headers = "Host: director\r\nAuthorization: Bearer benchmark-token\r\nContent-Type: application/json\r\n"
  for i = 1, 5000 do
    local body = string.format(
      '{"tenant":"acme","model":"llama-3.3-70b","client_ip":"203.0.113.%d","session":"conv-%06d","estimated_tokens":5200,"request_id":"01JB%06d"}',
      i % 250 + 1, i, i)
    requests[i] = "POST /select-region HTTP/1.1\r\n" .. headers .. "Content-Length: " .. #body .. "\r\n\r\n" .. body
  end
end

function request()
  n = n % #requests + 1
  return requests[n]
end
