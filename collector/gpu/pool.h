// SPDX-License-Identifier: MIT
// Memory for what comes and goes: what was given back is used again, so a steady state asks the system
// for nothing. Counted, so that a leak shows.
#pragma once

#include <cstdint>
#include <memory_resource>

namespace slotscope {

class Pool final : public std::pmr::memory_resource {
 public:
  uint64_t nr_gets() const { return nr_gets_; }
  uint64_t nr_puts() const { return nr_puts_; }
  uint64_t nr_active() const { return nr_gets_ - nr_puts_; }

 private:
  void* do_allocate(size_t bytes, size_t alignment) override {
    void* block = pool_.allocate(bytes, alignment);
    nr_gets_++;
    return block;
  }
  void do_deallocate(void* block, size_t bytes, size_t alignment) override {
    nr_puts_++;
    pool_.deallocate(block, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::pmr::unsynchronized_pool_resource pool_;
  uint64_t nr_gets_ = 0;
  uint64_t nr_puts_ = 0;
};

}  // namespace slotscope
