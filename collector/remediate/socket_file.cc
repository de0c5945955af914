// SPDX-License-Identifier: MIT
#include "remediate/socket_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <cerrno>
#include <cstdio>

#include "base/errno_text.h"
#include "base/escape.h"
#include "base/held_path.h"
#include "remediate/unix_socket.h"

namespace slotscope {
namespace {

constexpr int kBacklog = 64;
constexpr int kMaxAttempts = 100;  // at a temporary name

Status Fail(const std::string& path, const char* what) {
  return {Exit::kOutput,
          fmt::format("socket {}: cannot {}: {}", EscapeControls(path), what, ErrnoText(errno))};
}

// Without disturbing whom it belongs to: a datagram socket cannot be connected to a stream, but the
// kernel says whether there is one.
bool IsInUse(const std::string& path) {
  const UniqueFd probe(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = UnixAddress(path);
  return connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
         errno != ECONNREFUSED;
}

// Whether what is there may be replaced. *exists: there is something, which is *found.
Status LookAt(const std::string& path, bool* exists, struct stat* found) {
  *exists = lstat(path.c_str(), found) == 0;
  if (!*exists) return errno == ENOENT ? Status() : Fail(path, "look at it");
  if (!S_ISSOCK(found->st_mode) || found->st_uid != geteuid())
    return {
        Exit::kOutput,
        fmt::format("socket {}: there is something else (no socket, or not this user's); remove it, or "
                    "give another path",
                    EscapeControls(path))};
  if (IsInUse(path))
    return {Exit::kBusy,
            fmt::format("socket {}: another program is serving it; stop it, or give another path",
                        EscapeControls(path))};
  return {};
}

bool IsSame(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// What LookAt() saw makes room, and nothing else does.
Status TakeName(const std::string& temporary, const std::string& path, bool exists,
                const struct stat& seen) {
  if (!exists) {
    if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) return {};
    return Fail(path, "take its name");
  }
  if (renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0)
    return Fail(path, "take its name");
  struct stat old;
  if (lstat(temporary.c_str(), &old) == 0 && IsSame(old, seen)) {
    unlink(temporary.c_str());
    return {};
  }
  renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE);
  errno = EBUSY;  // somebody put another thing there meanwhile
  return Fail(path, "take its name");
}

// Whoever may not give it away lets the group in beside its own, if the filesystem knows such lists.
bool GiveToGroup(int file, gid_t group) {
  const std::string path = HeldPath(file);
  if (fchownat(file, "", static_cast<uid_t>(-1), group, AT_EMPTY_PATH) == 0)
    return chmod(path.c_str(), 0770) == 0;
  if (errno != EPERM) return false;
  constexpr uint32_t kNobody = ACL_UNDEFINED_ID;
  constexpr uint16_t kAll = ACL_READ | ACL_WRITE | ACL_EXECUTE;
  struct {
    posix_acl_xattr_header header = {POSIX_ACL_XATTR_VERSION};
    posix_acl_xattr_entry entries[5];
  } list = {.entries = {{ACL_USER_OBJ, kAll, kNobody},
                        {ACL_GROUP_OBJ, 0, kNobody},
                        {ACL_GROUP, kAll, group},
                        {ACL_MASK, kAll, kNobody},
                        {ACL_OTHER, 0, kNobody}}};
  return setxattr(path.c_str(), "system.posix_acl_access", &list, sizeof(list), 0) == 0;
}

}  // namespace

Status SocketFile::Listen(const std::string& path, std::optional<gid_t> group) {
  constexpr size_t kSuffixBytes = 16;
  if (path.empty() || path.size() + kSuffixBytes >= sizeof(sockaddr_un::sun_path))
    return {Exit::kUsage,
            fmt::format("socket {}: its path must have 1 to {} bytes", EscapeControls(path),
                        sizeof(sockaddr_un::sun_path) - kSuffixBytes - 1)};
  bool exists;
  struct stat seen = {};
  if (Status status = LookAt(path, &exists, &seen); !status.ok()) return status;
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // The file gets the socket's mode: it never has a wider one.
  if (!fd.valid() || fchmod(fd.get(), 0700) != 0) return Fail(path, "make it");
  std::string temporary;
  int error = EADDRINUSE;
  for (int i = 0; i < kMaxAttempts && error == EADDRINUSE; i++) {
    temporary = fmt::format("{}.{:x}.{}", path, getpid(), i);
    const sockaddr_un address = UnixAddress(temporary);
    error = bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ? errno : 0;
  }
  errno = error;
  if (error) return Fail(path, "make it");
  // By what was opened, not by a name that may be another thing's by now.
  const UniqueFd file(open(temporary.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat own;
  Status status;
  if (fstat(file.get(), &own) != 0 || !S_ISSOCK(own.st_mode) || own.st_uid != geteuid() ||
      listen(fd.get(), kBacklog) != 0)
    status = Fail(path, "listen");
  else if (group && !GiveToGroup(file.get(), *group))
    status = Fail(path, "give it to the group");
  else
    status = TakeName(temporary, path, exists, seen);
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  path_ = path;
  fd_ = std::move(fd);
  dev_ = own.st_dev;
  inode_ = own.st_ino;
  return {};
}

void SocketFile::Close() {
  if (!fd_.valid()) return;
  struct stat found;
  if (lstat(path_.c_str(), &found) == 0 && found.st_dev == dev_ && found.st_ino == inode_)
    unlink(path_.c_str());
  fd_.Reset();
}

}  // namespace slotscope
