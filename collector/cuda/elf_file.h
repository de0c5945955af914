// SPDX-License-Identifier: MIT
// The symbols and segments of an ELF file for x86-64, which is any process's: whatever it says of sizes
// is compared with the file before anything is made of that size, all of it together has a budget, and
// it is read, not mapped: whose file it is may cut it while we look.
#pragma once

#include <elf.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace slotscope {

class ElfFile {
 public:
  static constexpr size_t kMaxHeaders = 65536;         // of sections, and of segments
  static constexpr size_t kMaxSymbols = 4u << 20;      // in all tables; a browser has a million
  static constexpr uint64_t kMaxStrings = 256u << 20;  // of a table; a deep-learning framework has 80 MB
  static constexpr uint64_t kMaxRead = 1u << 30;       // in all
  static constexpr size_t kMaxName = 256;              // a longer name is none

  // Reads the headers. The file stays the caller's. `stop` may be null: once it is set, reading fails.
  Status Open(int fd, const std::atomic<bool>* stop);

  const std::vector<Elf64_Phdr>& segments() const { return segments_; }
  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  // Empty if it has none that can be read.
  std::string_view NameOf(const Elf64_Shdr& section) const;
  uint64_t size() const { return size_; }

  // Fails if it has fewer bytes there.
  Status ReadAt(uint64_t offset, std::span<std::byte> to);
  // Each symbol of a table that has a name. REQUIRES: a section of SHT_SYMTAB or
  // SHT_DYNSYM.
  Status ForEachSymbol(const Elf64_Shdr& table,
                       const std::function<void(const Elf64_Sym&, std::string_view name)>& fn);

 private:
  struct Strings {
    std::unique_ptr<char[]> bytes;
    size_t size = 0;

    std::string_view At(uint64_t offset) const;
  };

  template <typename Header>
  Status ReadHeaders(uint64_t offset, uint64_t nr, std::vector<Header>* headers);
  Status ReadStrings(uint64_t section, Strings* strings);

  int fd_ = -1;
  const std::atomic<bool>* stop_ = nullptr;
  uint64_t size_ = 0;
  uint64_t left_ = kMaxRead;
  size_t nr_symbols_ = 0;
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
  Strings names_;  // of sections
};

}  // namespace slotscope
