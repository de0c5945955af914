// SPDX-License-Identifier: MIT
#include "remediate/server.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/errno_text.h"
#include "base/event_fd.h"
#include "remediate/unix_socket.h"

namespace slotscope {
namespace {

constexpr useconds_t kAcceptPauseUs = 10'000;
constexpr int kMaxAccepts = 64;  // at a time: lines are to be written, too

std::vector<gid_t> GroupsOf(int fd, gid_t first) {
  std::vector<gid_t> groups(1024);
  auto size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
  if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) != 0) size = 0;
  groups.resize(size / sizeof(gid_t));
  groups.push_back(first);
  return groups;
}

}  // namespace

Status RemediateServer::Start(const std::string& path, std::optional<gid_t> group, News* news) {
  if (Status status = OpenEventFd(&wake_); !status.ok()) return status;
  group_ = group;
  news_ = news;
  if (Status status = socket_.Listen(path, group); !status.ok()) return status;
  thread_ = std::thread([this] { Run(); });
  return {};
}

void RemediateServer::Stop() {
  if (!thread_.joinable()) return;
  stop_requested_.store(true, std::memory_order_release);
  eventfd_write(wake_.get(), 1);
  thread_.join();
  socket_.Close();
}

bool RemediateServer::Wants() {
  if (has_client_.load(std::memory_order_acquire)) return true;
  counters_.nr_no_client++;
  return false;
}

void RemediateServer::Send(std::string line) {
  if (!Wants()) return;
  bool was_empty;
  {
    std::lock_guard lock(queue_mutex_);
    was_empty = queue_.empty();
    if (queue_.size() >= kMaxQueued) {
      queue_.pop_front();  // the newest says what is so now
      counters_.nr_queue_full++;
    }
    queue_.push_back(std::move(line));
  }
  if (was_empty) eventfd_write(wake_.get(), 1);
}

bool RemediateServer::TakeLine(std::string* line) {
  std::lock_guard lock(queue_mutex_);
  if (queue_.empty()) return false;
  *line = std::move(queue_.front());
  queue_.pop_front();
  return true;
}

void RemediateServer::DropQueued(std::atomic<uint64_t>* counter) {
  std::lock_guard lock(queue_mutex_);
  *counter += queue_.size();
  queue_.clear();
}

void RemediateServer::Run() {
  std::string line;
  for (;;) {
    const bool stopping = stop_requested_.load(std::memory_order_acquire);
    const bool has_line = client_.valid() && TakeLine(&line);
    // Nothing is read from a consumer; one that has shut down its own side only still gets its lines.
    pollfd fds[] = {{wake_.get(), POLLIN, 0}, {socket_.fd(), POLLIN, 0}, {client_.get(), 0, 0}};
    poll(fds, 3, has_line || stopping ? 0 : -1);
    uint64_t count;
    if (fds[0].revents) (void)eventfd_read(wake_.get(), &count);
    if (client_.valid() && fds[2].revents) {
      CloseClient();
      counters_.nr_write_error += has_line;
    } else if (has_line && !Write(line) && stopping) {
      CloseClient();  // who does not take the last lines at once is not waited for
    }
    if (fds[1].revents && !stopping) Accept();
    if (!client_.valid()) DropQueued(stopping ? &counters_.nr_write_error : &counters_.nr_no_client);
    if (stopping && !has_line) break;
  }
  CloseClient();
}

// A newer consumer replaces the one before.
void RemediateServer::Accept() {
  for (int i = 0; i < kMaxAccepts; i++) {
    sockaddr_storage from;  // has no name
    socklen_t size = sizeof(from);
    UniqueFd fd(
        accept4(socket_.fd(), reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      if (errno != EAGAIN && errno != ECONNABORTED) usleep(kAcceptPauseUs);  // no descriptor is free
      return;
    }
    std::string who;
    if (!IsAllowed(fd.get(), &who)) {
      counters_.nr_refused++;
      news_->Tell(fmt::format("remediation: refused a consumer: {}", who));
      continue;
    }
    if (client_.valid()) {
      counters_.nr_replaced++;
      CloseClient();
    }
    DropQueued(&counters_.nr_no_client);  // it hears of now, not of what another one did not take
    client_ = std::move(fd);
    counters_.nr_consumers++;
    has_client_.store(true, std::memory_order_release);
    news_->Tell(fmt::format("remediation: a consumer connected: {}", who));
  }
}

bool RemediateServer::IsAllowed(int fd, std::string* who) const {
  const std::optional<ucred> peer = PeerOf(fd);
  if (!peer) {
    *who = fmt::format("who it is cannot be told: {}", ErrnoText(errno));
    return false;
  }
  *who = fmt::format("process {}, user {}, group {}", peer->pid, peer->uid, peer->gid);
  if (IsRootOrSelf(*peer)) return true;
  if (!group_) return false;
  const std::vector<gid_t> groups = GroupsOf(fd, peer->gid);
  return std::find(groups.begin(), groups.end(), *group_) != groups.end();
}

// All of it within the timeout, or nothing; half a line is the consumer's last.
bool RemediateServer::Write(const std::string& line) {
  const uint64_t deadline_ns = MonotonicNs() + uint64_t{kWriteTimeoutMs} * 1'000'000;
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t sent = send(client_.get(), line.data() + done, line.size() - done, MSG_NOSIGNAL);
    if (sent >= 0) {
      done += static_cast<size_t>(sent);
      continue;
    }
    if (errno == EINTR) continue;
    const uint64_t now_ns = MonotonicNs();
    if (errno != EAGAIN || now_ns >= deadline_ns) {
      counters_.nr_write_error++;
      if (errno != EAGAIN || done > 0) CloseClient();
      return false;
    }
    pollfd fd = {client_.get(), POLLOUT, 0};
    poll(&fd, 1, static_cast<int>((deadline_ns - now_ns) / 1'000'000 + 1));
  }
  counters_.nr_sent++;
  return true;
}

void RemediateServer::CloseClient() {
  if (!client_.valid()) return;
  has_client_.store(false, std::memory_order_release);
  client_.Reset();
}

ServerStats RemediateServer::stats() const {
  return {counters_.nr_sent,       counters_.nr_no_client, counters_.nr_write_error,
          counters_.nr_queue_full, counters_.nr_consumers, counters_.nr_replaced,
          counters_.nr_refused};
}

}  // namespace slotscope
