// SPDX-License-Identifier: MIT
#include "remediate/client.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <vector>

#include "base/errno_text.h"
#include "base/escape.h"
#include "base/event_fd.h"
#include "remediate/unix_socket.h"

namespace slotscope {
namespace {

constexpr size_t kChunkBytes = 64u << 10;
constexpr uint64_t kCountsPeriodNs = 1'000'000'000;

template <typename T>
std::span<const std::byte> BytesOf(const T& object) {
  return std::as_bytes(std::span(&object, 1));
}

}  // namespace

Status RemediateClient::Start(const std::string& path, ItemQueue* items, News* news) {
  if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path))
    return {Exit::kUsage, fmt::format("--join-remediate {}: the path of a socket has 1 to {} bytes",
                                      EscapeControls(path), sizeof(sockaddr_un::sun_path) - 1)};
  if (Status status = OpenEventFd(&wake_); !status.ok()) return status;
  path_ = path;
  items_ = items;
  news_ = news;
  thread_ = std::thread([this] { Run(); });
  return {};
}

void RemediateClient::Stop() {
  if (!thread_.joinable()) return;
  stop_requested_.store(true, std::memory_order_relaxed);
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

bool RemediateClient::Sleep(int ms) const {
  pollfd fd = {wake_.get(), POLLIN, 0};
  poll(&fd, 1, ms);
  return !stop_requested_.load(std::memory_order_relaxed);
}

UniqueFd RemediateClient::Connect() {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = UnixAddress(path_);
  const bool connected =
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  // In a folder in which everybody may make files, anybody may serve.
  const std::optional<ucred> peer = connected ? PeerOf(fd.get()) : std::nullopt;
  if (connected && !(peer && IsRootOrSelf(*peer))) {
    counts_.nr_failed_connections++;
    news_->Tell(fmt::format(
        "join: {} is served by {}, who is neither root nor this user: not joined", EscapeControls(path_),
        peer ? fmt::format("user {}", peer->uid) : std::string("nobody knows whom")));
    return {};
  }
  if (connected) {
    counts_.nr_connections++;
    news_->Tell(fmt::format("join: connected to {}", EscapeControls(path_)));
    return fd;
  }
  counts_.nr_failed_connections++;
  news_->Tell(fmt::format("join: cannot connect to {}: {}; trying again each second",
                          EscapeControls(path_), ErrnoText(errno)));
  return {};
}

void RemediateClient::Run() {
  do {
    if (UniqueFd fd = Connect(); fd.valid()) {
      cutter_.Reset();
      latest_ns_ = 0;
      Consume(fd.get());
      items_->Put(ItemKind::kRemoteGone, {});
      if (!stop_requested_.load(std::memory_order_relaxed))
        news_->Tell(fmt::format("join: {} has closed the connection", EscapeControls(path_)));
    }
    PutCounts();
  } while (Sleep(kReconnectMs));
}

void RemediateClient::Consume(int fd) {
  std::vector<char> chunk(kChunkBytes);
  uint64_t lines_before = counts_.nr_lines;
  for (uint64_t since_ns = MonotonicNs(); !stop_requested_.load(std::memory_order_relaxed);) {
    pollfd fds[] = {{fd, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    poll(fds, 2, 100);
    const ssize_t got = recv(fd, chunk.data(), chunk.size(), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
    const ClockPair now = ReadClocks();
    if (got > 0)
      cutter_.Feed({chunk.data(), static_cast<size_t>(got)},
                   [&](std::string_view line) { OnLine(line, now); });
    counts_.nr_too_long = cutter_.nr_too_long();
    if (now.monotonic_ns - put_ns_ > kCountsPeriodNs) PutCounts();
    const uint64_t ahead_ms = (counts_.nr_lines - lines_before) / kMaxLinesPerMs;
    const uint64_t elapsed_ms = (MonotonicNs() - since_ns) / 1'000'000;
    if (ahead_ms > elapsed_ms && !Sleep(static_cast<int>(ahead_ms - elapsed_ms))) return;
    if (elapsed_ms > 100) {
      since_ns = MonotonicNs();
      lines_before = counts_.nr_lines;
    }
  }
}

void RemediateClient::OnLine(std::string_view line, const ClockPair& now) {
  counts_.nr_lines++;
  RemoteMessage message = ParseRemoteLine(line);
  counts_.nr_ignored += message.kind == RemoteMessage::Kind::kIgnored;
  counts_.nr_malformed += message.kind == RemoteMessage::Kind::kMalformed;
  if (message.kind != RemoteMessage::Kind::kMemory && message.kind != RemoteMessage::Kind::kStraggle)
    return;
  bool misdated;
  uint64_t ts_ns = MonotonicOf(message.unix_ns, now, &misdated);
  misdated |= ts_ns < latest_ns_;
  counts_.nr_misdated += misdated;
  latest_ns_ = ts_ns = std::max(ts_ns, latest_ns_);
  message.memory.ts_ns = message.straggle.ts_ns = ts_ns;
  if (message.kind == RemoteMessage::Kind::kMemory)
    items_->Put(ItemKind::kRemoteMemory, BytesOf(message.memory));
  else
    items_->Put(ItemKind::kRemoteStraggle, BytesOf(message.straggle));
}

void RemediateClient::PutCounts() {
  put_ns_ = MonotonicNs();
  if (counts_ == put_counts_) return;
  put_counts_ = counts_;
  items_->Put(ItemKind::kRemoteCounts, BytesOf(counts_));
}

}  // namespace slotscope
