// A model on disk: a Hugging Face folder, a folder with one GGUF, or one file. Opening checks config against weights
// completely; reading streams any range of any parameter as floats, without a second copy and without mapping.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parbuckle/status.h"

#include "engine/checkpoint/config_json.h"
#include "engine/checkpoint/weight_files.h"
#include "engine/model/parameters.h"

namespace parbuckle {

/// A tensor that a save of this model writes. Several may hold one parameter (a tied head that the files state as well).
struct SavedTensor {
  std::string name;
  std::size_t parameter = 0;  // position in ModelFolder::parameters()
  friend bool operator==(const SavedTensor&, const SavedTensor&) = default;
};

class ModelFolder {
 public:
  /// `path`: a folder with config.json and safetensors, a folder holding exactly one .gguf, a .gguf file, or a
  /// .safetensors file with config.json beside it. Every parameter of the config must be there with its shape, and no
  /// tensor that the model does not use. The message names file, tensor, found and wanted value.
  static Result<ModelFolder> open(const std::string& path);

  [[nodiscard]] const ModelConfig& config() const { return config_.model; }
  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Position of a parameter by its name in parameters().
  [[nodiscard]] std::optional<std::size_t> find(std::string_view parameter) const;

  /// Elements [first, first + count) of a parameter, row-major, into `out`. For GGUF the row order of q and k
  /// projections is put back; there the range must be whole rows. May be called from several threads.
  [[nodiscard]] Status read(std::size_t parameter,
                            std::int64_t first,
                            std::int64_t count,
                            float* out) const;

  [[nodiscard]] bool is_gguf() const { return weights_.gguf() != nullptr; }
  /// Metadata of the GGUF file (vocabulary, merges, template, ...); null for a Hugging Face folder.
  [[nodiscard]] const Gguf* gguf() const { return weights_.gguf(); }
  [[nodiscard]] const WeightFiles& weights() const { return weights_; }
  /// The folder, also where a file was named.
  [[nodiscard]] const std::string& folder() const { return folder_; }

  /// What a save writes: the names that were read, in the order of parameters().
  [[nodiscard]] const std::vector<SavedTensor>& saved_tensors() const { return saved_; }
  /// The type that most of the weights' bytes have.
  [[nodiscard]] StorageType storage_type() const;
  /// Text of config.json, byte for byte; empty for GGUF.
  [[nodiscard]] const std::string& config_text() const { return config_text_; }
  /// All end-of-text ids that config and generation config state.
  [[nodiscard]] std::vector<std::int32_t> eos_ids() const;
  [[nodiscard]] const GenerationConfig& generation() const { return generation_; }
  /// Path of tokenizer.json; empty where there is none (a GGUF has its vocabulary in gguf()).
  [[nodiscard]] std::string tokenizer_json_path() const;
  /// Tokenizer, template and generation files of the folder that a save copies byte for byte: file names.
  [[nodiscard]] std::vector<std::string> side_files() const;
  /// The chat template (Jinja text); empty where there is none.
  [[nodiscard]] Result<std::string> chat_template() const;
  /// Things that were ignored, one line each, for the run's header.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct Source {
    std::size_t tensor = 0;  // position in weights_.tensors()
    std::int64_t head_dim =
        0;  // rows of a head are interleaved (GGUF q and k); 0: rows as they are
  };

  Status read_config_and_weights(const std::string& path);
  Status read_generation();
  Status match();
  Status check_tensor(const Parameter& parameter, const StoredTensor& tensor) const;
  Status check_unused(const std::vector<bool>& used);
  Status check_tied_head(const StoredTensor& head);
  Status read_interleaved(const Source& source,
                          std::int64_t first_row,
                          std::int64_t rows,
                          float* out) const;

  std::string folder_;
  std::string config_path_;
  std::string config_text_;
  ConfigFile config_;
  GenerationConfig generation_;
  WeightFiles weights_;
  std::vector<Parameter> parameters_;
  std::vector<Source> sources_;  // like parameters_
  std::vector<SavedTensor> saved_;
  std::vector<std::string> notes_;
};

}  // namespace parbuckle
