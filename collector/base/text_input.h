// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace slotscope {

// Lines in a stream of bytes; of lines of more than 64 KiB the beginning.
class LineSplitter {
 public:
  using OnLine = std::function<void(std::string_view)>;

  // Calls for each line that is complete now, without its newline.
  void Feed(std::string_view bytes, const OnLine& on_line);
  // The last one, if it has no newline.
  void Finish(const OnLine& on_line);
  // Forgets the beginning of a line.
  void Reset() { line_.clear(); }

 private:
  std::string line_;
};

// All of a file, or of the standard input for "-". Exit::kBadInput if it cannot be read, or is larger
// than 1 GiB.
Status ReadInput(const std::string& path, std::string* bytes);

// Each of its lines, see LineSplitter.
Status ReadLines(const std::string& path, const LineSplitter::OnLine& on_line);

// Unix time of its last change; 0: not known, as of a pipe.
int64_t ChangedNs(const std::string& path);

}  // namespace slotscope
