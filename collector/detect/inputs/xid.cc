// SPDX-License-Identifier: MIT
#include "detect/inputs/xid.h"

#include <algorithm>
#include <cctype>

#include "base/scan.h"

namespace slotscope {
namespace {

constexpr std::string_view kAnchor = "NVRM: Xid (";
constexpr size_t kMaxMessage = 1024;
constexpr size_t kMaxProcess = 64;

bool TakeHex(std::string_view* text, size_t min, size_t max) {
  size_t nr = 0;
  while (nr < text->size() && isxdigit(static_cast<unsigned char>((*text)[nr]))) nr++;
  if (nr < min || nr > max) return false;
  text->remove_prefix(nr);
  return true;
}

// 0000:91:00, without the function.
bool TakeBus(std::string_view* text, std::string* bus) {
  const std::string_view begin = *text;
  if (!TakeHex(text, 4, 8) || !TakeText(text, ":") || !TakeHex(text, 2, 2) || !TakeText(text, ":") ||
      !TakeHex(text, 2, 2))
    return false;
  *bus = begin.substr(0, begin.size() - text->size());
  return true;
}

// pid=4711, pid='<unknown>' or pid=<unknown>; then perhaps ", name=NAME". All of it with a comma behind.
void TakeProcess(std::string_view* text, Xid* xid) {
  std::string_view rest = *text;
  if (!TakeText(&rest, "pid=")) return;
  int32_t pid;
  if (TakeText(&rest, "'<unknown>'") || TakeText(&rest, "<unknown>")) {
  } else if (TakeNumber(&rest, &pid)) {
    xid->pid = pid;
  } else {
    return;
  }
  if (TakeText(&rest, ", name=")) {
    const std::string_view name = rest.substr(0, rest.find(','));
    if (name != "<unknown>" && name != "'<unknown>'") xid->process = name.substr(0, kMaxProcess);
    rest.remove_prefix(name.size());
  }
  TakeText(&rest, ",");
  TakeText(&rest, " ");
  *text = rest;
}

void FindCause(Xid* xid) {
  constexpr std::string_view kCause = " caused by previous Xid ";
  const size_t at = xid->message.rfind(kCause);
  if (at == xid->message.npos) return;
  std::string_view rest = std::string_view(xid->message).substr(at + kCause.size());
  int32_t cause;
  if (TakeNumber(&rest, &cause)) xid->cause = cause;
}

}  // namespace

size_t FindXid(std::string_view line) { return line.find(kAnchor); }

std::optional<Xid> ParseXid(std::string_view text) {
  Xid xid;
  if (!TakeText(&text, kAnchor)) return {};
  TakeText(&text, "PCI:");
  int32_t number;
  if (!TakeBus(&text, &xid.bus)) return {};
  if (TakeText(&text, " GPU-I:")) {
    if (!TakeNumber(&text, &number)) return {};
    xid.gpu_instance = number;
  }
  if (TakeText(&text, " GPU-CI:")) {
    if (!TakeNumber(&text, &number)) return {};
    xid.compute_instance = number;
  }
  if (!TakeText(&text, "): ") || !TakeNumber(&text, &xid.code)) return {};
  // The code ends here: 79 is not the beginning of 79.5.
  if (!text.empty() && text.front() != ',' && text.front() != ' ') return {};
  TakeText(&text, ",");
  TakeText(&text, " ");
  TakeProcess(&text, &xid);
  while (!text.empty() && isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  xid.message = text.substr(0, kMaxMessage);
  FindCause(&xid);
  return xid;
}

const char* XidRemedy(int32_t code) {
  switch (code) {
    case 13:
    case 31:
    case 43:
    case 45:
    case 69:
      return "look at the program first: it is its own error, as a rule";
    case 94:
      return "restart the program: the memory error was contained in it";
    case 48:
    case 63:
    case 64:
    case 95:
    case 140:
      return "reset the GPU before it is used again, and have its memory checked";
    case 74:
    case 109:
    case 119:
    case 120:
    case 144:
    case 145:
    case 149:
    case 150:
      return "reset the GPU before it is used again; if that does not help, reboot the node";
    case 79:
      return "reboot the node, and have the GPU, its power and its slot checked";
    case 154:
      return "do what the driver says in its message, then look for the Xid before this one";
    default:
      return "look the number up in NVIDIA's catalogue of Xids";
  }
}

}  // namespace slotscope
