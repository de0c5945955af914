// SPDX-License-Identifier: MIT
// Rows of a table of a recording, or of a CSV file of ours: fields are found by their columns' names, as
// others may come between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/scan.h"

namespace slotscope {

class TableRows {
 public:
  static constexpr size_t kNone = SIZE_MAX;
  enum class Line {
    kComment,
    kHeader,     // names of columns: of each segment one
    kRow,        // whose fields this has until the next line
    kMalformed,  // another number of fields than columns, such as a line that is not complete yet
  };

  explicit TableRows(std::string_view first_column) : first_column_(first_column) {}

  Line Take(std::string_view line) {
    if (line.starts_with("# ")) return Line::kComment;
    Split(line);
    if (fields_[0] == first_column_) {
      places_.clear();
      for (size_t i = 0; i < fields_.size(); i++) places_.emplace(fields_[i], i);
      nr_columns_ = fields_.size();
      return Line::kHeader;
    }
    return nr_columns_ > 0 && fields_.size() == nr_columns_ ? Line::kRow : Line::kMalformed;
  }

  // Of a column, until the next header; kNone: there is no such column.
  size_t PlaceOf(std::string_view name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? kNone : found->second;
  }
  // "" of kNone.
  std::string_view At(size_t place) const { return place < fields_.size() ? fields_[place] : ""; }
  std::string_view operator[](std::string_view name) const { return At(PlaceOf(name)); }
  template <typename T>
  T Number(std::string_view name, T otherwise = {}) const {
    return NumberOf<T>((*this)[name]).value_or(otherwise);
  }

 private:
  void Split(std::string_view line) {
    fields_.clear();
    for (;;) {
      const size_t comma = line.find(',');
      fields_.push_back(line.substr(0, comma));
      if (comma == line.npos) return;
      line.remove_prefix(comma + 1);
    }
  }

  std::string first_column_;
  std::map<std::string, size_t, std::less<>> places_;
  size_t nr_columns_ = 0;
  std::vector<std::string_view> fields_;
};

}  // namespace slotscope
