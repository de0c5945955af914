// SPDX-License-Identifier: MIT
// A raw file through the engine.
#pragma once

#include <functional>
#include <string>

#include "raw/raw_file.h"
#include "run/engine.h"

namespace slotscope {

// What was wrong with the file; the rows up to there are good. Sentences, empty where all is well.
struct RawInputEnd {
  std::string error;  // it is damaged, and where
  std::string cut;    // it ends early
};

// Feeds all of an open file to *engine, and finishes it. Stops early where `failed`. `path`: for the
// sentences.
RawInputEnd ReadAll(RawFileReader* reader, const std::string& path, Engine* engine,
                    const std::function<bool()>& failed);

}  // namespace slotscope
