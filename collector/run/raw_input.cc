// SPDX-License-Identifier: MIT
#include "run/raw_input.h"

#include <fmt/core.h>

#include <span>

#include "base/escape.h"

namespace slotscope {

RawInputEnd ReadAll(RawFileReader* reader, const std::string& path, Engine* engine,
                    const std::function<bool()>& failed) {
  std::span<const std::byte> items;
  bool well_formed = true;
  while (well_formed && !failed() && reader->Next(&items)) well_formed = engine->merger().OnItems(items);
  engine->Finish();
  RawInputEnd end;
  if (!well_formed)
    end.error = fmt::format("{} holds an item that cannot be, before byte {}; the rows end there",
                            EscapeName(path), reader->nr_good_bytes());
  else if (!reader->status().ok())
    end.error = EscapeName(reader->status().message());
  else if (!reader->ended())
    end.cut =
        fmt::format("{} ends early, at byte {}: its recorder was killed, or this is a part of a copy",
                    EscapeName(path), reader->nr_good_bytes());
  return end;
}

}  // namespace slotscope
