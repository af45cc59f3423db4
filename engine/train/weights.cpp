#include "engine/train/weights.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <vector>

#include <xxhash.h>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

constexpr std::int64_t chunk_elements = mib / 4;
constexpr std::int64_t element_bytes = 4;

std::span<std::byte> bytes_of(float* data, std::int64_t count) {
  return std::as_writable_bytes(std::span(data, static_cast<std::size_t>(count)));
}

/// Elements [first, first + count) of a parameter, piece by piece: `visit(piece, first element of the part, its count)`.
template <class Visit>
Status for_pieces(const ParameterPlacement& placement,
                  std::int64_t first,
                  std::int64_t count,
                  Visit&& visit) {
  for (const ParameterPiece& piece : placement.pieces) {
    const std::int64_t begin = std::max(first, piece.first);
    const std::int64_t end = std::min(first + count, piece.first + piece.count);
    if (begin < end) {
      PARBUCKLE_TRY(visit(piece, begin, end - begin));
    }
  }
  return {};
}

std::int64_t offset_in(const ParameterPiece& piece, std::int64_t element) {
  return piece.offset + (element - piece.first) * element_bytes;
}

Status check_finite(const Parameter& parameter, std::int64_t first, std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      return invalid(parameter.name + ": element " +
                     std::to_string(first + static_cast<std::int64_t>(i)) +
                     " is not finite; a model cannot be trained from it");
    }
  }
  return {};
}

Status load_parameter(const ModelFolder& model,
                      std::size_t index,
                      const ParameterPlacement& placement,
                      Executor& executor,
                      std::vector<float>& buffer) {
  const Parameter& parameter = model.parameters()[index];
  const std::int64_t rows_at_once = std::max<std::int64_t>(1, chunk_elements / parameter.columns);
  for (std::int64_t row = 0; row < parameter.rows; row += rows_at_once) {
    const std::int64_t first = row * parameter.columns;
    const std::int64_t count = std::min(rows_at_once, parameter.rows - row) * parameter.columns;
    buffer.resize(static_cast<std::size_t>(count));
    PARBUCKLE_TRY(model.read(index, first, count, buffer.data()));
    PARBUCKLE_TRY(check_finite(parameter, first, buffer));
    PARBUCKLE_TRY(for_pieces(
        placement,
        first,
        count,
        [&](const ParameterPiece& piece, std::int64_t begin, std::int64_t n) {
          return executor.write_block(
              piece.weight, offset_in(piece, begin), bytes_of(buffer.data() + (begin - first), n));
        }));
  }
  return {};
}

struct FreeHash {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};
using Hash = std::unique_ptr<XXH3_state_t, FreeHash>;

Status hash_part(const ParameterPiece& piece,
                 BlockId ParameterPiece::*block,
                 Executor& executor,
                 std::vector<float>& buffer,
                 XXH3_state_t* hash) {
  for (std::int64_t at = 0; at < piece.count; at += chunk_elements) {
    const std::int64_t count = std::min(chunk_elements, piece.count - at);
    buffer.resize(static_cast<std::size_t>(count));
    PARBUCKLE_TRY(executor.read_block(
        piece.*block, piece.offset + at * element_bytes, bytes_of(buffer.data(), count)));
    XXH3_128bits_update(hash, buffer.data(), static_cast<std::size_t>(count * element_bytes));
  }
  return {};
}

std::string hex(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

}  // namespace

Status load_weights(const ModelFolder& model, const Lowered& lowered, Executor& executor) {
  std::vector<float> buffer;
  for (std::size_t i = 0; i < lowered.parameters.size(); ++i) {
    PARBUCKLE_TRY(load_parameter(model, i, lowered.parameters[i], executor, buffer));
  }
  return executor.finish_writes();
}

ParameterSource weight_source(const ModelFolder& model,
                              const Lowered& lowered,
                              Executor& executor) {
  return [&](const Parameter& parameter,
             std::int64_t first,
             std::int64_t count,
             float* out) -> Status {
    const auto index = model.find(parameter.name);
    if (!index.has_value()) {
      return internal_error("save asks for unknown parameter " + parameter.name);
    }
    return for_pieces(lowered.parameters[*index],
                      first,
                      count,
                      [&](const ParameterPiece& piece, std::int64_t begin, std::int64_t n) {
                        return executor.read_block(piece.weight,
                                                   offset_in(piece, begin),
                                                   bytes_of(out + (begin - first), n));
                      });
  };
}

Result<std::string> state_hash(const Lowered& lowered,
                               Executor& executor,
                               std::span<const double> losses) {
  const Hash hash(XXH3_createState());
  XXH3_128bits_reset(hash.get());
  std::vector<float> buffer;
  for (const ParameterPlacement& placement : lowered.parameters) {
    for (const auto block :
         {&ParameterPiece::weight, &ParameterPiece::moment1, &ParameterPiece::moment2}) {
      for (const ParameterPiece& piece : placement.pieces) {
        PARBUCKLE_TRY(hash_part(piece, block, executor, buffer, hash.get()));
      }
    }
  }
  XXH3_128bits_update(hash.get(), losses.data(), losses.size_bytes());
  return hex(XXH3_128bits_digest(hash.get()));
}

}  // namespace parbuckle
