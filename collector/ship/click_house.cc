// SPDX-License-Identifier: MIT
#include "ship/click_house.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "base/bounded_file.h"
#include "base/curl.h"
#include "base/scan.h"
#include "ship/packed_bytes.h"

namespace slotscope {

// Of --clickhouse.
struct ServerUrl {
  std::string root;  // without user and database
  std::string host, user, database;
};

namespace {

constexpr size_t kMaxPassword = 4096;
constexpr size_t kMaxSentence = 300;
constexpr long kHttpOk = 200;
constexpr int kMaxSeconds = 600;  // of any statement

// Its numbers for what went wrong, as far as it matters which. The rest is kFailed.
struct Code {
  int number;
  Answered answered;
};
constexpr std::array kCodes = {
    Code{16, Answered::kLacking},   // a column
    Code{47, Answered::kLacking},   // a name
    Code{60, Answered::kLacking},   // a table
    Code{81, Answered::kLacking},   // a database
    Code{36, Answered::kUnknown},   // an argument
    Code{44, Answered::kUnknown},   // a type in a column
    Code{50, Answered::kUnknown},   // a type
    Code{62, Answered::kUnknown},   // a word
    Code{432, Answered::kUnknown},  // a codec
    Code{164, Answered::kRefused},  // it may only read
    Code{192, Answered::kRefused},  // no such user
    Code{193, Answered::kRefused},  // a wrong password
    Code{194, Answered::kRefused},  // none was given
    Code{195, Answered::kRefused},  // not from this address
    Code{291, Answered::kRefused},  // not this database
    Code{497, Answered::kRefused},  // it has no right to
    Code{516, Answered::kRefused},  // one of the first three
    Code{216, Answered::kRunning},
};

// "Code: 60, e.displayText() = DB::Exception: Table x doesn't exist. ..." of older servers, "Code: 60.
// DB::Exception: ..." of newer ones.
Reply ReplyOfError(std::string_view body, long http) {
  constexpr std::string_view kCode = "Code: ", kException = "DB::Exception: ";
  Reply reply = {Answered::kFailed, ""};
  int number = 0;
  if (body.starts_with(kCode))
    std::from_chars(body.data() + kCode.size(), body.data() + body.size(), number);
  for (const Code& code : kCodes)
    if (code.number == number) reply.answered = code.answered;
  if (const size_t at = body.find(kException); at != body.npos)
    body.remove_prefix(at + kException.size());
  body = body.substr(0, body.find_first_of("\r\n"));
  if (const size_t end = body.find(", e.what() = "); end != body.npos) body = body.substr(0, end);
  reply.text = fmt::format("{}{}", EscapeControls(body.substr(0, kMaxSentence)),
                           body.size() > kMaxSentence ? "..." : "");
  if (number == 0) reply.text += fmt::format("{}(HTTP {})", reply.text.empty() ? "" : " ", http);
  return reply;
}

bool IsName(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) || c == '_');
  });
}

Status ParseServerUrl(const std::string& text, ServerUrl* server) {
  const auto wrong = [&](const char* what) -> Status {
    return {Exit::kUsage, fmt::format("--clickhouse: {}, as in http://HOST:8123 or "
                                      "https://USER@HOST:8443/DATABASE",
                                      what)};
  };
  const CurlUrl url = ParseUrl(text);
  const std::string scheme = url ? PartOf(url.get(), CURLUPART_SCHEME) : "";
  if (scheme != "http" && scheme != "https") return wrong("give the URL of a ClickHouse server");
  if (!PartOf(url.get(), CURLUPART_PASSWORD).empty())
    return {Exit::kUsage,
            "--clickhouse: a password in a URL is seen by everybody who lists processes; put it into a "
            "file, and give --password-file"};
  if (!PartOf(url.get(), CURLUPART_QUERY).empty() || !PartOf(url.get(), CURLUPART_FRAGMENT).empty())
    return wrong("give it without parameters");
  server->user = PartOf(url.get(), CURLUPART_USER, CURLU_URLDECODE);
  if (server->user != EscapeControls(server->user)) return wrong("a user's name is printable ASCII");
  server->database = PartOf(url.get(), CURLUPART_PATH).substr(1);
  if (server->database.empty()) server->database = "slotscope";
  if (!IsName(server->database)) return wrong("the name of a database is of letters, digits and _");
  server->host = HostOf(url.get());
  server->root = fmt::format("{}://{}/", scheme, server->host);
  return {};
}

// A test need not wait for two minutes.
long SilenceS() {
  const char* const text = std::getenv("SLOTSCOPE_TEST_SILENCE_S");
  return text ? NumberOf<long>(text).value_or(ClickHouse::kSilenceS) : ClickHouse::kSilenceS;
}

size_t Append(char* bytes, size_t size, size_t nr, void* to) {
  auto& body = *static_cast<std::string*>(to);
  if (body.size() + size * nr > ClickHouse::kMaxAnswer) return CURL_WRITEFUNC_ERROR;
  body.append(bytes, size * nr);
  return size * nr;
}

int AskStop(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return (*static_cast<ClickHouse::Stop*>(stop))();
}

}  // namespace

struct ClickHouse::Impl {
  ServerUrl server;
  EasyHandle easy;
  CurlList headers;
  Stop stop = nullptr;
  std::string answer;

  void AddHeader(const std::string& line) {
    curl_slist* const longer = curl_slist_append(headers.get(), line.c_str());
    if (!longer) return;
    (void)headers.release();  // it begins the longer one
    headers.reset(longer);
  }

  Reply Post(const std::string& parameters, std::string_view body) {
    CURL* const curl = easy.get();
    const std::string url = server.root + "?" + parameters;
    answer.clear();
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    const CURLcode code = curl_easy_perform(curl);
    if (code == CURLE_ABORTED_BY_CALLBACK) return {Answered::kStopped, "it was given up"};
    if (code == CURLE_WRITE_ERROR) return {Answered::kFailed, "it answers with more than there can be"};
    if (code == CURLE_SSL_CONNECT_ERROR)
      return {Answered::kAway, "no TLS could be agreed upon (is its port one for https?)"};
    curl_off_t asked_us = 0;  // after which it had a connection
    curl_easy_getinfo(curl, CURLINFO_PRETRANSFER_TIME_T, &asked_us);
    if (code == CURLE_OPERATION_TIMEDOUT && asked_us > 0)
      return {Answered::kAway,
              fmt::format("it has been asked, and has said nothing for {} s: it is busy with that, or "
                          "stands still",
                          SilenceS())};
    if (code != CURLE_OK) return {Answered::kAway, curl_easy_strerror(code)};
    long http = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http);
    if (http != kHttpOk) return ReplyOfError(answer, http);
    return {Answered::kYes, std::move(answer)};
  }
};

ClickHouse::ClickHouse() = default;
ClickHouse::~ClickHouse() = default;

Status ClickHouse::Open(const ServerOptions& options, Stop stop) {
  auto impl = std::make_unique<Impl>();
  if (Status status = ParseServerUrl(options.url, &impl->server); !status.ok()) return status;
  std::string password;
  if (!options.password_file.empty()) {
    if (Status status = ReadWholeFile(options.password_file, kMaxPassword, &password); !status.ok())
      return {Exit::kUsage, fmt::format("--password-file: {}", status.message())};
    while (password.ends_with('\n') || password.ends_with('\r')) password.pop_back();
    if (std::any_of(password.begin(), password.end(), [](char c) { return c == '\n' || c == '\0'; }))
      return {Exit::kUsage, fmt::format("--password-file {}: there is more than one line in it",
                                        EscapeControls(options.password_file))};
  }
  const bool has_curl = SetUpCurl();
  impl->easy.reset(curl_easy_init());
  if (!has_curl || !impl->easy)
    return {Exit::kKernel, "cannot set up libcurl: there is not enough memory"};
  impl->stop = stop;
  CURL* const curl = impl->easy.get();
  impl->AddHeader("Expect:");  // it would answer to that only when it has read the body
  impl->AddHeader("Content-Type: application/octet-stream");
  // Not in the URL, which is in logs.
  if (!impl->server.user.empty()) impl->AddHeader("X-ClickHouse-User: " + impl->server.user);
  if (!password.empty()) impl->AddHeader("X-ClickHouse-Key: " + password);
  SetCommon(curl);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, impl->headers.get());
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectTimeoutS);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, SilenceS());
  curl_easy_setopt(curl, CURLOPT_TCP_KEEPALIVE, 1L);
  if (!options.ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, options.ca_file.c_str());
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, Append);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &impl->answer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, AskStop);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &impl->stop);
  impl_ = std::move(impl);
  return {};
}

const std::string& ClickHouse::host() const { return impl_->server.host; }
const std::string& ClickHouse::database() const { return impl_->server.database; }

// wait_end_of_query: a status of 200 is that of the whole answer.
Reply ClickHouse::Ask(const std::string& sql, In in) {
  std::string parameters = fmt::format("wait_end_of_query=1&max_execution_time={}", kMaxSeconds);
  if (in == In::kDatabase) parameters += "&database=" + database();
  return impl_->Post(parameters, sql);
}

Reply ClickHouse::Insert(std::string_view table, const std::string& columns, const std::string& id,
                         std::string_view body) {
  CURL* const curl = impl_->easy.get();
  const std::string sql = fmt::format("INSERT INTO {} ({}) FORMAT Native", table, columns);
  return impl_->Post(
      fmt::format("{}&database={}&max_execution_time={}&query_id={}&query={}", PackedBytes::kParameters,
                  database(), kMaxSeconds, UrlEscaped(curl, id), UrlEscaped(curl, sql)),
      body);
}

Status CheckServerUrl(const std::string& url) {
  ServerUrl server;
  return ParseServerUrl(url, &server);
}

std::string SqlText(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '\'';
}

std::vector<std::vector<std::string>> FieldsOf(std::string_view answer) {
  std::vector<std::vector<std::string>> rows;
  while (!answer.empty()) {
    std::string_view line = answer.substr(0, answer.find('\n'));
    answer.remove_prefix(std::min(answer.size(), line.size() + 1));
    std::vector<std::string> row(1);
    for (size_t i = 0; i < line.size(); i++) {
      if (line[i] == '\t')
        row.emplace_back();
      else if (line[i] == '\\' && i + 1 < line.size())
        row.back() += line[++i];
      else
        row.back() += line[i];
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace slotscope
