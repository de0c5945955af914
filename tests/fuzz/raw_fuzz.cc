// SPDX-License-Identifier: MIT
// The reader of raw files and of the facts in them.
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "raw/raw_file.h"

namespace slotscope {
namespace {

void ReadFile(const uint8_t* data, size_t size) {
  UniqueFd fd(memfd_create("raw", MFD_CLOEXEC));
  if (write(fd.get(), data, size) != static_cast<ssize_t>(size)) std::abort();
  RawFileReader reader;
  if (!reader.Open(fmt::format("/proc/self/fd/{}", fd.get())).ok()) return;
  std::span<const std::byte> items;
  std::string state;
  if (reader.facts().raw_segment > 0 && !reader.ReadState(&state).ok()) return;
  uint64_t nr_bytes = state.size();
  while (reader.Next(&items)) nr_bytes += items.size();
  if (nr_bytes > reader.nr_good_bytes()) std::abort();
}

// What is understood can be written and is understood again.
void ReadFacts(std::string_view text) {
  Facts facts, again;
  if (!ParseFacts(text, &facts).ok()) return;
  if (!ParseFacts(FactsToJson(facts), &again).ok() || !(again == facts)) std::abort();
}

}  // namespace
}  // namespace slotscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  if (data[0] == '{')
    slotscope::ReadFacts({reinterpret_cast<const char*>(data), size});
  else
    slotscope::ReadFile(data, size);
  return 0;
}
