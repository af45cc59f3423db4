#include "engine/checkpoint/inspect.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "parbuckle/units.h"

#include "engine/checkpoint/model_folder.h"

namespace parbuckle {
namespace {

namespace fs = std::filesystem;

void add_weights(Inspection& out, const WeightFiles& weights) {
  for (const InputFile& file : weights.files()) {
    out.files.push_back(file.name());
  }
  for (const StoredTensor& tensor : weights.tensors()) {
    out.tensors.push_back(tensor.info);
    out.weight_bytes += tensor.info.end - tensor.info.begin;
    out.parameters += element_count(tensor.info.shape).value_or(0);
  }
  if (const Gguf* const gguf = weights.gguf(); gguf != nullptr) {
    out.kind =
        "GGUF version " + std::to_string(gguf->version) + ", architecture " + gguf->architecture;
  }
}

/// The weights of something that is no model to us.
Result<WeightFiles> weights_alone(const std::string& path) {
  std::error_code ignored;
  if (fs::path(path).extension() == ".gguf") {
    return WeightFiles::open_gguf(path);
  }
  if (!fs::is_directory(path, ignored)) {
    return WeightFiles::open_safetensors(path);
  }
  if (fs::exists(fs::path(path) / "config.json", ignored)) {
    return WeightFiles::open_folder(path);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored)) {
    if (entry.path().extension() == ".gguf") {
      return WeightFiles::open_gguf(entry.path().string());
    }
  }
  return WeightFiles::open_folder(path);
}

bool is_lone_safetensors(const std::string& path) {
  const fs::path file(path);
  std::error_code ignored;
  return file.extension() == ".safetensors" && fs::is_regular_file(file, ignored) &&
         !fs::exists(file.parent_path() / "config.json", ignored);
}

std::string count_text(std::int64_t count) {
  std::string out = std::to_string(count);
  for (std::size_t at = out.size(); at > 3; at -= 3) {
    out.insert(at - 3, 1, ',');
  }
  return out;
}

std::string rope_text(const RopeConfig& rope) {
  const std::string base = "rotary positions, base " + std::to_string(std::llround(rope.theta));
  switch (rope.type) {
    case RopeType::none:
      return base;
    case RopeType::linear:
      return base + ", linear scaling";
    case RopeType::llama3:
      return base + ", llama3 scaling";
  }
  return base;
}

std::string config_text(const ModelConfig& c) {
  std::string out = c.model_type + ": " + std::to_string(c.layers) + " layers, hidden " +
                    std::to_string(c.hidden_size) + ", " + std::to_string(c.heads) + " heads of " +
                    std::to_string(c.head_dim) + " (" + std::to_string(c.kv_heads) +
                    " key/value), intermediate " + std::to_string(c.intermediate_size) +
                    ", vocabulary " + std::to_string(c.vocab_size) + ", " +
                    std::to_string(c.max_positions) + " positions, " +
                    (c.tied ? "tied head" : "own head");
  out += c.shape == ModelShape::llama ? ", " + rope_text(c.rope) : ", learned positions";
  const auto windowed =
      std::count_if(c.windows.begin(), c.windows.end(), [](std::int32_t w) { return w > 0; });
  if (windowed > 0) {
    out += ", window " + std::to_string(*std::max_element(c.windows.begin(), c.windows.end())) +
           " in " + std::to_string(windowed) + " layers";
  }
  return out;
}

std::string types_text(const std::vector<TensorInfo>& tensors) {
  std::map<StorageType, std::pair<std::int64_t, std::int64_t>> by_type;  // tensors, bytes
  for (const TensorInfo& tensor : tensors) {
    by_type[tensor.type].first += 1;
    by_type[tensor.type].second += tensor.end - tensor.begin;
  }
  std::string out;
  for (const auto& [type, sums] : by_type) {
    out += (out.empty() ? "" : ", ") + std::string(to_string(type)) + " " +
           std::to_string(sums.first) + " tensors " + format_size(sums.second);
  }
  return out;
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string tensor_lines(const std::vector<TensorInfo>& tensors) {
  std::size_t name_width = 0;
  std::size_t shape_width = 0;
  for (const TensorInfo& tensor : tensors) {
    name_width = std::max(name_width, tensor.name.size());
    shape_width = std::max(shape_width, shape_text(tensor.shape).size());
  }
  std::string out;
  for (const TensorInfo& tensor : tensors) {
    out += "  " + padded(tensor.name, name_width) + "  " +
           padded(std::string(to_string(tensor.type)), 5) + "  " +
           padded(shape_text(tensor.shape), shape_width) + "  " +
           count_text(tensor.end - tensor.begin) + "\n";
  }
  return out;
}

}  // namespace

Result<Inspection> inspect_model(const std::string& path) {
  Inspection out;
  out.path = path;
  std::error_code ignored;
  out.kind = fs::is_directory(path, ignored) ? "Hugging Face folder" : "safetensors file";
  if (is_lone_safetensors(path)) {
    PARBUCKLE_ASSIGN(const WeightFiles weights, WeightFiles::open_safetensors(path));
    add_weights(out, weights);
    out.unsupported = "there is no config.json beside it, so nothing says what model this is";
    return out;
  }
  const Result<ModelFolder> model = ModelFolder::open(path);
  if (model.ok()) {
    add_weights(out, model->weights());
    out.config = model->config();
    out.notes = model->notes();
    out.parameters = 0;
    for (const Parameter& parameter : model->parameters()) {
      out.parameters += parameter.elements();
    }
    return out;
  }
  if (model.status().code() != Code::unsupported) {
    return model.status();
  }
  out.unsupported = model.status().message();
  PARBUCKLE_ASSIGN(const WeightFiles weights, weights_alone(path));
  add_weights(out, weights);
  return out;
}

std::string inspection_text(const Inspection& inspection) {
  std::string out = inspection.path + "\n";
  const auto line = [&out](const char* name, const std::string& value) {
    out += padded(name, 12) + value + "\n";
  };
  line("kind", inspection.kind);
  if (inspection.config) {
    line("model", config_text(*inspection.config));
  }
  line("parameters", count_text(inspection.parameters));
  line("weights",
       std::to_string(inspection.tensors.size()) + " tensors in " +
           std::to_string(inspection.files.size()) +
           (inspection.files.size() == 1 ? " file, " : " files, ") +
           format_size(inspection.weight_bytes) + " (" + types_text(inspection.tensors) + ")");
  line("supported", inspection.unsupported.empty() ? "yes" : "no: " + inspection.unsupported);
  for (const std::string& note : inspection.notes) {
    line("note", note);
  }
  return out + "tensors     name, type, shape, bytes\n" + tensor_lines(inspection.tensors);
}

Result<std::string> inspect(const std::string& path) {
  PARBUCKLE_ASSIGN(const Inspection inspection, inspect_model(path));
  return inspection_text(inspection);
}

}  // namespace parbuckle
