// SPDX-License-Identifier: MIT
// A folder of a test's own, gone with it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace slotscope {

class TempFolder {
 public:
  TempFolder() {
    char name[] = "/tmp/slotscope-test.XXXXXX";
    if (mkdtemp(name)) path_ = name;
    EXPECT_FALSE(path_.empty());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string At(const std::string& name) const { return path_ + "/" + name; }
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(At(name), std::ios::binary) << bytes;
  }
  void Append(const std::string& name, const std::string& bytes) const {
    std::ofstream(At(name), std::ios::binary | std::ios::app) << bytes;
  }

 private:
  std::string path_;
};

}  // namespace slotscope
